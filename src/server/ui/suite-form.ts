import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import { variantsOf } from '../../shared/domain/matrix.ts';
import { most } from '../../shared/domain/bounds.ts';
import { oneOf } from '../../shared/records/fields.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import { suiteFields, type Suite } from '../../shared/records/suite.ts';
import { fieldTable, type Choices, type NamesIn } from './controls.ts';
import { type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { counted, subjectOf } from './parts.ts';
import { imageTexts } from './registries.ts';
import { tokensGroup } from './suite-tokens.ts';
import { servicesGroup } from './suite-services.ts';
import { stepsPart } from './suite-steps.ts';

const { maximum: mostRetries } = suiteFields.retries.schema;

const patterns = 'Patterns lead down from the workspace: no / at the beginning and no .. in them.';

const variantLines = {
  isCode: true,
  rows: 2,
  placeholder: 'NODE=20 DB=sqlite',
  wrong: `Each line names variables with one value each, such as NODE=20 DB=sqlite. There are at least one and at most
  ${most.variants} combinations in the end.`,
};

/** Not a field of the API: which of the two parts of the form counts. */
const runs = oneOf(['command', 'steps']);

export const suiteForm = fieldTable(
  { ...suiteFields, runs },
  {
    name: { label: 'Name' },
    runs: { label: 'What runs' },
    command: {
      label: 'Command',
      isCode: true,
      rows: 4,
      hint: html`Run by <code>sh -e</code> in a fresh copy of the repository: a line that fails ends it. The suite
        passes when it exits with 0.`,
      wrong: 'A suite has a command or steps: leave one of them blank.',
    },
    steps: { label: 'Steps' },
    services: { label: 'Services' },
    image: imageTexts,
    root: {
      label: 'User in the image',
      choices: [
        ['', 'The image’s own'],
        ['true', 'Root'],
        ['false', 'Not root'],
      ],
      hint: 'Root can install packages and change users in the sandbox. It has no rights on the machine.',
      wrong: 'Without an image there is no root.',
    },
    builds_images: {
      label: 'Builds images',
      hint: html`<code>buildah</code> and <code>podman build</code> work in it, and it has the passwords of the
        owner&rsquo;s registries. It reaches more of the runner&rsquo;s kernel than other builds.`,
      wrong: imageBuildsOff,
    },
    id_tokens: { label: 'Identity tokens' },
    api_token: {
      label: 'Headrace’s API',
      choices: [
        ['none', 'not open to its builds'],
        ['read', 'its builds read this project'],
        ['write', 'its builds read this project and start builds'],
      ],
      hint: html`A build has a token in <code>HEADRACE_TOKEN</code> that ends with it. Builds of forks have none.`,
    },
    tags: {
      label: 'Tags',
      hint: 'Words with blanks between them. Only runners that have all of these tags run the suite.',
      wrong: 'Tags are words of letters, digits and . _ : - that start with a letter or a digit.',
    },
    reuse: {
      label: 'Reuse',
      choices: [
        ['off', 'each build runs'],
        ['on', 'a build is not run if one with the same inputs passed before'],
      ],
      hint: 'Its builds see no history and no commit, branch or number of the build, unless that is allowed below.',
    },
    inputs: {
      label: 'Files that matter',
      rows: 2,
      isCode: true,
      hint: html`One pattern a line, such as <code>src</code> or <code>*.json</code>. Left blank, all files of the
        commit matter. The other files are in the workspace too.`,
      wrong: patterns,
    },
    ignore_variables: {
      label: 'Variables that do not matter',
      rows: 2,
      isCode: true,
      hint: 'Names, one on each line. Another value of these does not make the suite run.',
      wrong: 'Each line is the name of a variable: letters, digits and _, and no digit first.',
    },
    reuse_days: {
      label: 'Days that a result may be reused',
      hint: 'From 1 to 365, counted from the end of its build.',
    },
    uses_request: {
      label: 'Uses the request',
      hint: 'Its builds see commit, branch, event and pull request, and run again when one of these differs.',
    },
    cache: {
      label: 'Cache',
      rows: 2,
      isCode: true,
      hint: html`Paths, one on each line, in the repository (<code>node_modules</code>) or under
        <code>~</code> (<code>~/.npm</code>). The next build finds there what a passed one left.`,
      wrong:
        'These are not paths to cache: without .. and not absolute, none inside another, and not .git, the whole repository or the whole home.',
    },
    cache_save: {
      label: 'Save it after',
      choices: [
        ['passed', 'passed builds'],
        ['always', 'passed and failed builds'],
      ],
    },
    annotations: {
      label: 'Annotations',
      choices: [
        ['', 'lines such as ::error file=a.c,line=3::text'],
        ['compiler', 'also errors of compilers, such as a.c:3:1: error: text'],
      ],
      hint: 'Lines of the log that report a problem at a line of a file. The page of a build lists them.',
    },
    needs: { label: 'Needs', hint: 'It begins when these have passed, and is skipped when one does not.' },
    files_from_id: {
      label: 'Files from',
      hint: 'One of the suites in its needs. The build starts with the workspace and home of that build.',
      wrong: 'It has to be one of those that this suite needs, without a matrix or with the very same one.',
    },
    files_from_name: {
      label: 'Files from a suite by name',
      hint: html`In the place of the choice above, with values of the matrix in it: <code>build-$NAME</code>.`,
      wrong:
        'For each variant it has to be the name of one that this suite needs, without a matrix or with the same one.',
    },
    files_from: {
      label: 'Files beside the checkout',
      hint: html`Suites in its needs. Their files are in <code>.headrace/files/NAME</code>, and cannot be changed.`,
      wrong: 'They have to be some of those that this suite needs, and it cannot also start with the files of one.',
    },
    approval: { label: 'Approval', hint: 'Each build waits until a user of the project approves it.' },
    approvers: {
      label: 'Approvers',
      rows: 2,
      hint: 'E-mail addresses of users of the project, one on each line. They cannot approve their own requests. Left blank, any user of the project may approve.',
    },
    manual: {
      label: 'Manual',
      hint: 'It never runs by itself, only when a build is asked for with this suite chosen, or a deploy runs it.',
      wrong: 'A deploy strategy runs it, so it stays manual.',
    },
    priority: {
      label: 'Priority',
      hint: 'From -100 to 100. Higher ones begin first among the waiting builds of the account. Usual is 0.',
    },
    concurrency_group: {
      label: 'Concurrency group',
      hint: 'Builds of the project whose suites have the same group run one at a time, the oldest first.',
    },
    matrix: {
      label: 'Matrix',
      isCode: true,
      rows: 2,
      placeholder: 'NODE=20,22,24',
      hint: html`One variable in each line, with its values: <code>NODE=20,22,24</code>. There is one build for every
        combination, with these values in its environment.`,
      wrong: `Each line is a different variable and its values, such as NODE=20,22; values have no blanks in them and are
    not repeated. There are at most ${most.variants} combinations.`,
    },
    matrix_exclude: {
      ...variantLines,
      label: 'Left out',
      hint: 'Combinations that have everything that one of these lines names.',
    },
    matrix_include: {
      ...variantLines,
      label: 'Built besides',
      hint: 'Combinations of their own, also with other variables.',
    },
    matrix_allow_failure: {
      ...variantLines,
      label: 'Variants that may fail',
      hint: 'The commit passes also when these have failed.',
    },
    timeout: {
      label: 'Time limit in seconds',
      hint: 'A longer build is ended. 0 means the limit of the server, which no suite can exceed.',
      wrong: 'This is no whole number of seconds, or more than the server allows.',
    },
    allow_failure: {
      label: 'May fail',
      hint: 'A build of it that fails says so, and its commit passes all the same.',
    },
    retries: {
      label: 'Retries',
      hint: `How often a build that fails is tried again by itself, up to ${mostRetries} times. One that passes then is called flaky.`,
    },
    retry_on: {
      label: 'Tried again on',
      rows: 2,
      isCode: true,
      hint: html`One reason a line, for up to two more tries: <code>errored</code> (the machine&rsquo;s fault),
        <code>timeout</code>, <code>exit:75</code>, <code>log:connection reset</code> (an expression in RE2 syntax that
        a line of the log matches). Left blank, only a build whose runner was lost is tried again.`,
      wrong: 'Each line is errored, timeout, exit: with a number from 1 to 255, or log: with an expression.',
    },
    resume: {
      label: 'Goes on after a lost runner',
      hint: 'With several steps: another runner goes on at the first step that was not done. Each done step is packed and sent while the next one runs.',
    },
    reports: {
      label: 'Test reports',
      rows: 2,
      isCode: true,
      hint: html`Files in JUnit XML, whose tests are shown with the build: one pattern a line, such as
        <code>report.xml</code> or <code>**/target/surefire-reports/*.xml</code>.`,
      wrong: patterns,
    },
    artifacts: {
      label: 'Artifacts',
      rows: 2,
      isCode: true,
      hint: html`Files that are kept after each build, whatever its result: one pattern a line, such as
        <code>dist</code>, <code>*.log</code> or <code>coverage/**/*.html</code>.`,
      wrong: patterns,
    },
    description: { label: 'Description', rows: 2 },
  },
);
type SuiteForm = PageForm<NamesIn<typeof suiteForm>>;

interface Around {
  all: readonly Suite[];
  mayBuildImages: boolean;
  /** Undefined if the user cannot list them. */
  dependencies: Choices | undefined;
}

/** The first part has what most suites need. Everything else is folded, with a line that shows what is set. */
export function suiteParts(form: SuiteForm, { all, mayBuildImages, dependencies }: Around, suite?: Suite): Html {
  const others = all.filter(({ id }) => id !== suite?.id).map(({ id_str: id, name }) => [id, name] as const);
  const mayChoose = mayBuildImages || suite?.builds_images === true;
  const runner = ['root', ...(mayChoose ? (['builds_images'] as const) : []), 'tags'] as const;
  return html`${form.field('name')} ${runsPart(form)} ${form.field('image')}
  ${others.length > 0 && form.field('needs', { choices: others })} ${servicesGroup(form, dependencies)}
  ${form.group(runner, runnerSummary(form))} ${startGroup(form, others, suite)}
  ${form.group(['matrix', 'matrix_exclude', 'matrix_include', 'matrix_allow_failure'], matrixSummary(form))}
  ${form.group(['cache', 'cache_save'], `Cache: ${countedLines(form, 'cache', 'path')}`)}
  ${form.group(['reuse', 'inputs', 'ignore_variables', 'reuse_days', 'uses_request'], reuseSummary(form))}
  ${form.group(['timeout', 'allow_failure', 'retries', 'retry_on', 'resume'], limitsSummary(form))}
  ${form.group(
    ['reports', 'annotations', 'artifacts'],
    `Test reports: ${countedLines(form, 'reports', 'pattern')}, artifacts: ${countedLines(form, 'artifacts', 'pattern')}`,
  )}
  ${tokensGroup(form)}
  ${form.group(['description'], `Description: ${form.shown('description').trim() === '' ? 'none' : subjectOf(form.shown('description'))}`)}`;
}

/** The style sheet hides the part that is not chosen, unless it has a mistake. */
function runsPart(form: SuiteForm): Html {
  const chosen = form.shown('runs') || (form.count('steps') > 0 ? 'steps' : 'command');
  const choice = (value: string, words: string): Html =>
    html`<label class="check">
      <input type="radio" name="runs" value="${value}" ${chosen === value && html`checked`} /> <span>${words}</span>
    </label>`;
  return html`<fieldset class="field runs">
    <legend>What runs</legend>
    <div class="row">${choice('command', 'All in one')} ${choice('steps', 'In steps')}</div>
    <div class="runs-command">${form.field('command')}</div>
    <div class="runs-steps">${stepsPart(form)}</div>
  </fieldset>`;
}

/** The part that is not chosen does not count, whatever is typed there. */
export function chosenRuns({ runs: chosen, ...form }: RawGroup): RawGroup {
  if (chosen === 'steps') return { ...form, command: '' };
  const { steps: _steps, ...withCommand } = form;
  return chosen === 'command' ? withCommand : form;
}

function reuseSummary(form: SuiteForm): string {
  const { length: patterns } = form.shownList('inputs');
  const { length: ignored } = form.shownList('ignore_variables');
  const days = Number(form.shown('reuse_days'));
  return [
    `Reuse: ${form.shown('reuse') === 'on' ? `on, ${counted(days, 'day')}` : 'off'}`,
    ...(patterns === 0 ? [] : [`files of ${counted(patterns, 'pattern')}`]),
    ...(ignored === 0 ? [] : [`without ${counted(ignored, 'variable')}`]),
    ...(form.shown('uses_request') === 'true' ? ['with the request'] : []),
  ].join(', ');
}

function countedLines(form: SuiteForm, name: 'cache' | 'reports' | 'artifacts', what: string): string {
  const { length } = form.shownList(name);
  return length === 0 ? 'none' : counted(length, what);
}

const rootWords: Record<string, string[]> = { true: ['as root'], false: ['not as root'] };

function runnerSummary(form: SuiteForm): string {
  const tags = form.shownList('tags').join(' ');
  return [
    `Runner: ${tags === '' ? 'any' : `with the tags ${tags}`}`,
    ...(rootWords[form.shown('root')] ?? []),
    ...(form.shown('builds_images') === 'true' ? ['builds images'] : []),
  ].join(', ');
}

function matrixSummary(form: SuiteForm): string {
  const lists = {
    matrix: form.shownList('matrix'),
    matrix_include: form.shownList('matrix_include'),
    matrix_exclude: form.shownList('matrix_exclude'),
  };
  // Refused input may have any number of lines.
  const isFit = Object.values(lists).every(({ length }) => length <= most.variants);
  const variants = isFit ? variantsOf(lists).filter((variant) => variant !== '').length : 0;
  return `Matrix: ${variants === 0 ? 'none' : counted(variants, 'variant')}`;
}

function limitsSummary(form: SuiteForm): string {
  const [seconds, retries] = [Number(form.shown('timeout')), form.shown('retries')];
  const reasons = form.shownList('retry_on');
  return [
    `Timeout: ${seconds > 0 ? `${seconds} s` : 'the server’s'}`,
    `retries: ${retries === '0' || retries === '' ? 'none' : retries}`,
    ...(reasons.join() === 'errored'
      ? []
      : [`tried again on ${reasons.length === 0 ? 'nothing' : counted(reasons.length, 'reason')}`]),
    ...(form.shown('allow_failure') === 'true' ? ['may fail'] : []),
  ].join(', ');
}

function startGroup(form: SuiteForm, others: Choices, suite?: Suite): Html {
  const filesFrom = form.shown('files_from_id');
  const [group, priority] = [form.shown('concurrency_group'), form.shown('priority')];
  const isManual = form.shown('manual') === 'true';
  const several = form.shownList('files_from');
  // A name with values of the matrix is no suite that could be chosen.
  const named = suite?.files_from.flatMap(({ id, name }) => (id === null ? [[name, name] as const] : [])) ?? [];
  const taken = suite && { value: suite.files_from.map(({ id_str: id, name }) => id || name) };
  const summary = [
    `Start: ${isManual ? 'manual' : 'by itself'}`,
    ...(form.shown('approval') === 'true' ? ['with approval'] : []),
    ...(filesFrom === '' ? [] : [`files of ${others.find(([id]) => id === filesFrom)?.[1]}`]),
    ...(several.length === 0 ? [] : [`files of ${counted(several.length, 'suite')}`]),
    ...(group === '' ? [] : [`group: ${group}`]),
    ...(priority === '0' || priority === '' ? [] : [`priority: ${priority}`]),
  ];
  return form.group(
    [
      'files_from_id',
      'files_from_name',
      'files_from',
      'approval',
      'approvers',
      'manual',
      'concurrency_group',
      'priority',
    ],
    summary.join(', '),
    html`${form.fields('manual', 'approval', 'approvers')}
    ${others.length > 0 && form.field('files_from_id', { choices: [['', 'the checkout'], ...others] })}
    ${form.shown('files_from_name') !== '' && form.field('files_from_name')}
    ${others.length > 0 && form.field('files_from', { choices: [...others, ...named], ...taken })}
    ${form.fields('concurrency_group', 'priority')}`,
  );
}
