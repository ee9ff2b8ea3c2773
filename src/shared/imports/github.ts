import { most } from '../domain/bounds.ts';
import { parseCron } from '../domain/cron.ts';
import { useAction, type Done } from './actions.ts';
import { allOf, matching, negated, rulesOf, testOf, type Condition } from './conditions.ts';
import { conditionOf, environmentHere, outputVariable, readCondition, scriptIn, textIn, variableOfInput, wordOf, type Job } from './github-values.ts';
import { finishSuite } from './finish.ts';
import { combined, flattened, realValues, variableOf, writeVariants, type Variant } from './matrix.ts';
import { elsewhere, emptySuite, emptyTranslation, isScalar, isTable, kept, listOf, readKeys, tableOf, Tally, textsOf, type Keys, type Outcome, type Path, type Reading, type Source, type Suite, type Table, type Translation } from './model.ts';
import { nameOf } from './names.ts';
import { addService, addVariable } from './parts.ts';
import { inBash, only, quote } from './shell.ts';
import { byOccasion, type Occasion } from './triggers.ts';

const lost = (why: string): Outcome => ({ lost: why });

export function fromGithub(source: Source): { translation: Translation; tally: Tally } {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const workflow = tableOf(source.value);
  const occasions = triggersOf(workflow.on, translation, tally);
  const keys: Keys<Translation> = {
    on: elsewhere,
    jobs: elsewhere,
    env: elsewhere,
    defaults: kept,
    name: kept,
    permissions: kept,
    concurrency: elsewhere,
    'run-name': 'a build request has no name',
  };
  readKeys(workflow, keys, { tally, target: translation, path: [] });
  if (translation.parameters.length > most.parameters) translation.parameters.length = most.parameters;
  const group = concurrencyOf(workflow.concurrency, ['concurrency'], translation, tally);
  const jobs = tableOf(workflow.jobs);
  const uploads: Job['uploads'] = new Map();
  for (const [id, value] of Object.entries(jobs)) {
    const suite = jobOf(id, { value, workflow, source, tally, translation, uploads });
    if (suite && group !== undefined) suite.fields.concurrency_group ??= group;
    if (suite) translation.suites.push(suite);
  }
  noteEnvironment(workflow, tally, translation);
  return { translation: byOccasion(translation, occasions), tally };
}

/** The variables of the whole workflow are counted once, and each suite has them. */
function noteEnvironment({ env }: Table, tally: Tally, translation: Translation): void {
  if (env !== undefined && !isTable(env)) tally.lose(translation, ['env'], env, 'this is no table of variables');
}

function triggersOf(on: unknown, translation: Translation, tally: Tally): Occasion[] {
  const given: Table = isTable(on) ? on : Object.fromEntries(textsOf(on).map((name) => [name, null]));
  const occasions: Occasion[] = [];
  for (const [name, value] of Object.entries(given)) {
    const path: Path = isTable(on) ? ['on', name] : ['on'];
    const told = isTable(on) ? value : name;
    if (name === 'schedule') {
      const crons = listOf(value).map((one) => textsOf(tableOf(one).cron)[0] ?? '');
      for (const [at, cron] of crons.entries())
        if (parseCron(cron)) {
          translation.schedules.push({ cron: cron.trim().replaceAll(/\s+/g, ' ') });
          tally.keep();
        } else tally.lose(translation, [...path, at], cron, 'these are not five fields that Headrace reads');
      occasions.push({ events: ['schedule'] });
    } else if (name === 'workflow_dispatch') {
      tally.keep();
      readInputs(tableOf(tableOf(value).inputs), translation, tally, [...path, 'inputs']);
      occasions.push({ events: ['manual'] });
    } else if (name === 'push' || name === 'pull_request') {
      tally.keep();
      occasions.push(...filtered(name, tableOf(value), { tally, target: translation, path }));
    } else
      tally.lose(translation, path, isScalar(told) ? told : undefined, 'a build starts at a push, a tag, a pull request, a schedule or by hand');
  }
  return occasions;
}

/** A push of a branch, a push of a tag, or a pull request, each with what it is limited to. */
function filtered(event: 'push' | 'pull_request', filters: Table, reading: Reading<Translation>): Occasion[] {
  const conditions: Record<'branches' | 'tags', Condition | undefined> = { branches: undefined, tags: undefined };
  const rules: Occasion['rules'] = [];
  const refs =
    (kind: 'branches' | 'tags', isIgnored: boolean) =>
    (value: unknown): Outcome => {
      const globs = textsOf(value);
      const [yes, no] = [globs.filter((one) => !one.startsWith('!')), globs.flatMap((one) => (one.startsWith('!') ? [one.slice(1)] : []))];
      const subject = kind === 'tags' ? 'tag' : event === 'push' ? 'branch' : 'target';
      const isAny = yes.some((one) => one === '**' || (one === '*' && kind === 'tags'));
      const wanted = yes.length === 0 || isAny ? [] : [matching(subject, yes)];
      const all = isIgnored ? [negated(matching(subject, globs))] : [...wanted, ...(no.length > 0 ? [negated(matching(subject, no))] : [])];
      conditions[kind] = allOf([conditions[kind] ?? { is: true }, ...all]);
      return kept();
    };
  const keys: Keys<Translation> = {
    branches: refs('branches', false),
    'branches-ignore': refs('branches', true),
    tags: refs('tags', false),
    'tags-ignore': refs('tags', true),
    paths: (value) => {
      const globs = textsOf(value);
      if (globs.some((one) => one.startsWith('!'))) return lost('a rule cannot take some of the matching files out');
      const [rule] = rulesOf(matching('files', globs)) ?? [];
      if (rule && !globs.includes('**')) rules.push({ ...rule, ...(rule.operator === 'equals' && { operator: 'equals' }) });
      return kept();
    },
    'paths-ignore': (value) => {
      const condition = matching('files', textsOf(value));
      const pattern = 'pattern' in condition ? condition.pattern : rulesOf(allOf([matching('files', [...textsOf(value), '**/.never.']) ]))?.[0]?.value ?? '';
      rules.push({ subject: 'commit.files', operator: 'not_all_match', value: pattern });
      return kept();
    },
    types: (value) => {
      const others = textsOf(value).filter((one) => !['opened', 'synchronize', 'reopened', 'ready_for_review', 'edited'].includes(one));
      return others.length === 0 ? kept() : lost(`a pull request is built when it is opened or has new commits, and not at: ${others.join(', ')}`);
    },
  };
  readKeys(filters, keys, reading);
  const { branches, tags } = conditions;
  if (event === 'pull_request') return [{ events: ['pull_request'], condition: branches, rules }];
  const isUnlimited = branches === undefined && tags === undefined;
  return [
    ...(isUnlimited || branches ? [{ events: ['push', 'poll'], condition: branches, rules }] : []),
    ...(isUnlimited || tags ? [{ events: ['tag'], condition: tags, rules: tags ? [] : rules }] : []),
  ];
}

const types: Readonly<Record<string, string>> = { string: 'string', boolean: 'boolean', number: 'number', choice: 'choice' };

function readInputs(inputs: Table, translation: Translation, tally: Tally, path: Path): void {
  for (const [name, value] of Object.entries(inputs)) {
    const { type = 'string', description = '', default: usual = '', required, options } = tableOf(value);
    const known = types[String(type)];
    if (known === undefined) {
      tally.lose(translation, [...path, name], type, 'a parameter is a string, a number, a boolean or a choice');
      continue;
    }
    translation.parameters.push({
      name: variableOfInput(name),
      type: known,
      description: nameOf(String(description || name)),
      default: String(usual ?? '') || (known === 'boolean' ? 'false' : ''),
      required: required === true,
      options: known === 'choice' ? textsOf(options) : [],
    });
    tally.keep();
  }
}

/** The group, if it is the same for all. */
function concurrencyOf(given: unknown, path: Path, target: Translation | Suite, tally: Tally): string | undefined {
  if (given === undefined) return undefined;
  const table = tableOf(given);
  const group = isScalar(given) ? String(given) : (textsOf(table.group)[0] ?? '');
  if (table['cancel-in-progress'] !== undefined && table['cancel-in-progress'] !== false)
    tally.lose(target, path, undefined, 'what a newer commit cancels is a setting of the project: cancel_superseded');
  else tally.keep();
  return group.includes('${{') || group === '' ? undefined : nameOf(group);
}

interface About {
  value: unknown;
  workflow: Table;
  source: Source;
  tally: Tally;
  translation: Translation;
  uploads: Job['uploads'];
}

function jobOf(id: string, { value, workflow, source, tally, translation, uploads }: About): Suite | undefined {
  const path: Path = ['jobs', id];
  const suite = emptySuite(nameOf(id));
  const table = tableOf(value);
  const drop = (why: string): undefined => {
    translation.notes.push(...suite.notes, ...suite.steps.flatMap(({ notes }) => notes).filter((note) => !note.startsWith(outputMark)));
    tally.lose(translation, path, undefined, why);
    return undefined;
  };
  if (table.uses !== undefined) return void tally.lose(translation, [...path, 'uses'], table.uses, 'there are no workflows of other repositories: write its jobs here');
  const steps = listOf(table.steps).map(tableOf);
  const job: Job = {
    suite,
    tally,
    source,
    translation,
    variants: [new Map()],
    names: new Map(),
    used: new Set(),
    outputs: new Map(),
    ids: new Set(steps.flatMap(({ id: name, run }) => (run === undefined ? [] : textsOf(name)))),
    path,
    uploads,
    isContainer: false,
  };
  const problem = readMatrix(job, tableOf(table.strategy));
  if (problem !== undefined) return drop(problem);
  const machine = readMachine(job, table['runs-on']);
  if (machine === undefined) return drop(`it runs on ${textsOf(table['runs-on']).join(', ')}, and runners are on Linux`);
  const environment = [
    ...exportsOf(job, workflow.env, ['env'], false),
    ...exportsOf(job, table.env, [...path, 'env'], true),
  ];
  readKeys(table, jobKeys(job), { tally, target: suite, path });
  tally.keep(); // the job
  const defaults = { ...runDefaults(workflow), ...runDefaults(table) };
  for (const [at, step] of steps.entries()) readStep(job, step, { path: [...path, 'steps', at], environment, defaults, at });
  for (const step of suite.steps) {
    const own = [...job.outputs].find(([name]) => step.notes.includes(outputsOf(name)));
    step.notes = step.notes.filter((note) => !note.startsWith(outputMark));
    if (own) step.command = withOutputs(step.command, ...own);
  }
  if (suite.fields.matrix_allow_failure === undefined) delete suite.fields.matrix_allow_failure;
  const keys = new Map([...job.names].filter(([key]) => job.used.has(key) || new Set(job.variants.map((one) => one.get(key))).size > 1));
  const written = writeVariants(suite, job.variants, keys);
  if ('problem' in written) return drop(written.problem);
  const real = realValues(written.values, job.names, quote);
  if (real !== '') for (const step of suite.steps) if (step.command !== '') step.command = `${real}${step.command}`;
  return finishSuite(suite, machine) ? suite : drop('nothing of it is left that could run');
}

const outputMark = 'outputs of ';
const outputsOf = (id: string): string => `${outputMark}${id}`;

/** What the step writes to `$GITHUB_OUTPUT` becomes variables of the later steps. */
function withOutputs(command: string, id: string, outputs: ReadonlySet<string>): string {
  const lines = Array.from(outputs, (output) => `sed -n 's/^${output}=/${outputVariable(id, output)}=/p' "$GITHUB_OUTPUT" >> "$HEADRACE_ENV"`);
  return `${command}\n${lines.join('\n')}`;
}

function runDefaults({ defaults }: Table): Table {
  return tableOf(tableOf(defaults).run);
}

/** Returns why there can be none. */
function readMatrix(job: Job, strategy: Table): string | undefined {
  const { tally, suite, path } = job;
  const at = [...path, 'strategy'];
  const keys: Keys<Suite> = {
    matrix: elsewhere,
    'fail-fast': (value) => (value === true ? lost('the other variants are built to their ends') : kept()),
    'max-parallel': (value) => (value === 1 ? ((suite.fields.concurrency_group = suite.name), kept()) : lost('how many builds run at once is a setting of the runners')),
  };
  readKeys(strategy, keys, { tally, target: suite, path: at });
  const { matrix } = strategy;
  if (matrix === undefined) return undefined;
  if (!isTable(matrix)) return 'its matrix is computed while the workflow runs';
  const { include, exclude, ...axes } = matrix;
  if (Object.values(axes).some((axis) => !Array.isArray(axis)) || [include, exclude].some((one) => typeof one === 'string'))
    return 'its matrix is computed while the workflow runs';
  const lists = Object.entries(axes).map(([name, values]) => listOf(values).map((one) => flattened(one, name)));
  const all = lists.length === 0 ? [] : combined(lists);
  if (!all) return `its matrix has more than ${most.combinations} combinations`;
  const excluded = listOf(exclude).map((one) => flatVariant(one));
  const variants = all.filter((one) => !excluded.some((other) => other.entries().every(([key, value]) => one.get(key) === value)));
  const originals = variants.map((one) => new Map(one));
  for (const added of listOf(include).map((one) => flatVariant(one))) {
    const fitting = variants.filter((_, index) =>
      added.entries().every(([key, value]) => !originals[index]?.has(key) || originals[index]?.get(key) === value),
    );
    const hasCommon = lists.length > 0 && fitting.length > 0;
    if (hasCommon) for (const one of fitting) for (const [key, value] of added) one.set(key, value);
    else variants.push(new Map(added));
  }
  if (variants.length === 0) return 'its matrix has no variant';
  job.variants = variants;
  const taken = new Set<string>();
  for (const key of new Set(variants.flatMap((one) => [...one.keys()]))) {
    let name = variableOf(key);
    while (taken.has(name)) name = `${name}_`;
    taken.add(name);
    job.names.set(key, name);
  }
  tally.keep();
  return undefined;
}

function flatVariant(given: unknown): Map<string, string> {
  const flat = new Map<string, string>();
  for (const [name, value] of Object.entries(tableOf(given))) flattened(value, name, flat);
  return flat;
}

/** The label of the machine. Undefined if there is none here. */
function readMachine(job: Job, given: unknown): string | undefined {
  const { suite, tally, path } = job;
  const at = [...path, 'runs-on'];
  const labels = isTable(given) ? textsOf(given.labels) : textsOf(given);
  const [only_ = ''] = labels;
  const [, key, fallback] = /^\$\{\{\s*matrix\.([\w.-]+)\s*(?:\|\|\s*'([\w.-]+)'\s*)?\}\}$/.exec(only_) ?? [];
  if (labels.length === 1 && key !== undefined) {
    const label = (one: Variant): string => one.get(key) || (fallback ?? '');
    const [here, away] = [job.variants.filter((one) => isLinux(label(one))), job.variants.filter((one) => !isLinux(label(one)))];
    if (here.length === 0) return undefined;
    job.variants = here;
    tally.keep();
    for (const other of new Set(away.map(label)))
      tally.lose(suite, at, other, 'runners are on Linux, so its variants are not built');
    return label(here[0] ?? new Map());
  }
  if (labels.some((one) => one.includes('${{'))) {
    tally.lose(suite, at, only_, 'which runner it is decides itself while the workflow runs');
    return 'ubuntu-latest';
  }
  if (!labels.every(isLinux)) return undefined;
  tally.keep();
  const tags = labels.filter((one) => !/^(?:self-hosted|linux|x64|ubuntu-.*|ubuntu)$/i.test(one));
  if (tags.length > 0) suite.fields.tags = tags.map((one) => one.replaceAll(/[^A-Za-z0-9._:-]/g, '-')).slice(0, most.tags);
  return labels.find((one) => one.startsWith('ubuntu')) ?? 'ubuntu-latest';
}

const isLinux = (label: string): boolean => label !== '' && !/^(?:windows|macos|mac-os|osx)/i.test(label);

/** Variables of the suite, and a line for each step for those that are not the same in all variants. */
function exportsOf(job: Job, given: unknown, path: Path, isOwn: boolean): string[] {
  return Object.entries(tableOf(given)).flatMap(([name, value]) => {
    const at = [...path, name];
    const lose = (why: string): [] => (isOwn || !job.translation.suites.length ? job.tally.lose(job.suite, at, value, why) : undefined, []);
    const keep = (): void => (isOwn || job.translation.suites.length === 0 ? job.tally.keep() : undefined);
    const [, own] = /^\s*\$\{\{\s*(?:secrets|vars)\.(\w+)\s*\}\}\s*$/.exec(String(value)) ?? [];
    const resolved = textIn(job, isScalar(value) ? String(value) : '');
    if (!resolved) return lose('its value is not known here');
    if (name === 'CI' || own === name) return keep(), [];
    if ('text' in resolved) {
      const problem = addVariable(job.suite, { name, content: resolved.text });
      if (problem !== undefined) return lose(problem);
      return keep(), [];
    }
    if (!/^[A-Za-z_]\w*$/.test(name)) return lose('this is no name of a variable');
    keep();
    return [`export ${name}=${wordOf(resolved)}`];
  });
}

function jobKeys(job: Job): Keys<Suite> {
  const { suite, translation, tally } = job;
  return {
    ...Object.fromEntries(['steps', 'env', 'strategy', 'runs-on'].map((name) => [name, elsewhere])),
    name: (value) => {
      const text = String(value).trim();
      if (text !== suite.name && !text.includes('${{')) suite.fields.description = nameOf(text);
      return kept();
    },
    permissions: (value) =>
      tableOf(value)['id-token'] === 'write' ? lost('write id_tokens, with the service that the token is for') : kept(),
    defaults: kept,
    needs: (value) => {
      suite.needs = textsOf(value).map(nameOf);
      return kept();
    },
    if: (value) => {
      const expression = readCondition(value);
      const whole = expression && stripStatus(expression);
      const condition = whole && whole.status !== 'failed' ? conditionOf(job, whole.rest) : undefined;
      if (condition && 'is' in condition && !condition.is) return ((suite.fields.manual = true), kept());
      const rules = condition && rulesOf(condition);
      if (!rules) {
        suite.fields.manual = true;
        return lost('rules cannot say this, so it runs only by hand');
      }
      suite.rules.push(...rules);
      return kept();
    },
    'timeout-minutes': (value) => {
      if (typeof value !== 'number' || !(value > 0)) return lost('this is no number of minutes');
      suite.fields.timeout = Math.min(Math.ceil(value * 60), 2_592_000);
      return kept();
    },
    'continue-on-error': (value) => {
      if (typeof value === 'boolean') return ((suite.fields.allow_failure = value), value || delete suite.fields.allow_failure, kept());
      const [, key] = /^\$\{\{\s*matrix\.([\w.-]+)\s*(?:==\s*true\s*|\|\|\s*false\s*)?\}\}$/.exec(String(value)) ?? [];
      const name = key === undefined ? undefined : job.names.get(key);
      if (key === undefined || name === undefined) return lost('whether it may fail is decided while the workflow runs');
      if (job.variants.some((one) => one.get(key) === 'true')) {
        job.used.add(key);
        suite.fields.matrix_allow_failure = [`${name}=true`];
        for (const one of job.variants) if (!one.has(key)) one.set(key, 'false');
      }
      return kept();
    },
    container: (value, { path }) => {
      const table: Table = isTable(value) ? value : { image: value };
      const image = textIn(job, textsOf(table.image)[0] ?? '');
      if (!image) return lost('its image is not known here');
      suite.fields.image = 'text' in image ? image.text : image.shell;
      job.isContainer = true;
      if (typeof table.options === 'string' && /--user(?:=| )(?:root|0)\b/.test(table.options)) suite.fields.root = true;
      exportsOf(job, table.env, [...path, 'env'], true);
      const { image: _image, env: _env, options, ...others } = table;
      const wrong = [...Object.keys(others), ...(options === undefined || suite.fields.root === true ? [] : ['options'])];
      if (wrong.length > 0) tally.lose(suite, path, undefined, `a container here has no ${wrong.join(', ')}`);
      return kept();
    },
    services: (value, { path }) => {
      for (const [name, given] of Object.entries(tableOf(value))) readService(job, name, tableOf(given), [...path, name]);
      return elsewhere();
    },
    concurrency: (value, { path }) => {
      const group = concurrencyOf(value, path, suite, tally);
      if (group !== undefined) suite.fields.concurrency_group = group;
      return elsewhere();
    },
    environment: 'who must approve is not in the file: write approval = true, and limit its variables to refs',
    outputs: (value) => (Object.keys(tableOf(value)).length === 0 || translation === undefined ? kept() : lost('a suite hands files on, and no variables')),
  };
}

function readService(job: Job, name: string, table: Table, path: Path): void {
  const { suite, tally } = job;
  const image = textIn(job, textsOf(table.image)[0] ?? '');
  const variables = Object.entries(tableOf(table.env)).map(([key, value]) => {
    const text = textIn(job, isScalar(value) ? String(value) : '');
    const [, from] = text && 'shell' in text ? (/^\$\{(\w+)\}$/.exec(text.shell) ?? []) : [];
    return from === undefined ? { name: key, content: text && 'text' in text ? text.text : '' } : { name: key, from };
  });
  if (!image) return tally.lose(suite, path, undefined, 'its image is not known here');
  const ready = healthCommand(textsOf(table.options)[0] ?? '');
  const problem = addService(suite, {
    name,
    image: 'text' in image ? image.text : image.shell,
    ...(ready !== undefined && { ready_command: ready }),
    variables,
    notes: [],
  });
  if (problem !== undefined) return tally.lose(suite, path, undefined, problem);
  tally.keep();
  const service = suite.services.at(-1) ?? suite;
  for (const port of textsOf(table.ports)) {
    const [outer, inner = outer] = port.replace(/\/(?:tcp|udp)$/, '').split(':');
    if (outer !== inner) tally.lose(service, [...path, 'ports'], port, `it listens at its own port ${inner}`);
  }
  const rest = (textsOf(table.options)[0] ?? '').replaceAll(/--health-[\w-]+(?:=|\s+)(?:"[^"]*"|'[^']*'|\S+)/g, '').trim();
  if (rest !== '') tally.lose(service, [...path, 'options'], rest.replaceAll(/\s+/g, ' '), 'a service has no options of a container engine');
  for (const key of ['volumes', 'credentials'])
    if (table[key] !== undefined) tally.lose(service, [...path, key], undefined, `a service has no ${key} here`);
}

export function healthCommand(options: string): string | undefined {
  const [, double, single, word] = /--health-cmd(?:=|\s+)(?:"([^"]*)"|'([^']*)'|(\S+))/.exec(options) ?? [];
  return double ?? single ?? word;
}

type Expression = NonNullable<ReturnType<typeof readCondition>>;
type Status = 'passed' | 'failed' | 'always';

/** `always() && …` and the like. The rest is a condition without these. */
function stripStatus(expression: Expression): { status: Status; rest: Expression } | undefined {
  const own = statusOf(expression);
  if (own) return { status: own, rest: { value: true } };
  if (!('operator' in expression) || expression.operator !== '&&') return { status: 'passed', rest: expression };
  const statuses = expression.args.map(statusOf);
  const found = statuses.filter((one) => one !== undefined);
  const args = expression.args.filter((_, at) => statuses[at] === undefined);
  return { status: found.includes('failed') ? 'failed' : (found[0] ?? 'passed'), rest: { operator: '&&', args } };
}

function statusOf(expression: Expression): Status | undefined {
  if ('operator' in expression && expression.operator === '!') {
    const [inner] = expression.args;
    return inner && 'call' in inner && inner.call === 'cancelled' ? 'always' : undefined;
  }
  if (!('call' in expression)) return undefined;
  return { always: 'always', failure: 'failed', success: 'passed' }[expression.call] as Status | undefined;
}

interface StepPlace {
  path: Path;
  environment: readonly string[];
  defaults: Table;
  at: number;
}

const knownKeys = new Set(['name', 'id', 'if', 'run', 'uses', 'with', 'env', 'shell', 'working-directory', 'continue-on-error', 'timeout-minutes']);

function readStep(job: Job, step: Table, { path, environment, defaults, at }: StepPlace): void {
  const { suite, tally } = job;
  const place = { name: '', command: '', notes: [] as string[] };
  const key = step.uses === undefined ? 'run' : 'uses';
  const drop = (why: string): void => {
    tally.lose(place, [...path, key], step[key] === undefined ? undefined : String(step[key]).split('\n', 1)[0], why);
    suite.steps.push(place);
  };
  const expression = step.if === undefined ? { value: true } : readCondition(step.if);
  const split = expression && stripStatus(expression);
  const condition = split && conditionOf(job, split.rest);
  if (!condition) return drop(`its condition cannot be said here: ${String(step.if).replaceAll(/\s+/g, ' ').slice(0, 120)}`);
  if ('is' in condition && !condition.is) return tally.keep(); // never on Linux
  const test = 'is' in condition ? undefined : testOf(condition);
  if (test === undefined && !('is' in condition)) return drop(`a step does not know this: ${String(step.if).slice(0, 120)}`);
  const done = step.uses === undefined ? runOf(job, step, defaults) : usesOf(job, step);
  if ('lost' in done) return drop(done.lost);
  tally.keep();
  const wrong = Object.keys(step).filter((name) => !knownKeys.has(name));
  for (const name of wrong) tally.lose(place, [...path, name], step[name], 'this key is not known here');
  const exported = exportsForStep(job, step, path, place.notes);
  const { command } = done;
  if (command === undefined || command.trim() === '') {
    if (place.notes.length > 0) suite.steps.push(place);
    return;
  }
  const script = [...(isPlain(done) ? [] : [...environment, ...exported]), ...(step.uses === undefined ? helpersOf(command) : []), command].join('\n');
  const limit = typeof step['timeout-minutes'] === 'number' ? `timeout ${Math.ceil(step['timeout-minutes'] * 60)} ` : '';
  const mayFail = step['continue-on-error'] === true || (typeof step['continue-on-error'] === 'string' && /true/.test(step['continue-on-error']));
  const bounded = limit === '' && !mayFail ? script : `${limit}sh -e -c ${quote(script)}${mayFail ? " || echo 'This step failed, as it may.'" : ''}`;
  const status = split?.status ?? 'passed';
  const title = typeof step.name === 'string' ? step.name.replaceAll(/\$\{\{\s*([^}]*?)\s*\}\}/g, '$1') : undefined;
  suite.steps.push({
    name: nameOf(title ?? (step.uses === undefined ? command.split('\n', 1)[0] ?? '' : String(step.uses)) ?? `step ${at + 1}`),
    command: withPath(test === undefined ? bounded : only(test, bounded), String(step.run)),
    ...(status !== 'passed' && { when: status }),
    notes: [...place.notes, ...(typeof step.id === 'string' ? [outputsOf(step.id)] : [])],
  });
}

const isPlain = (done: object): boolean => 'isSetup' in done;

function usesOf(job: Job, { uses, with: inputs }: Table): Done {
  const name = String(uses);
  if (name.startsWith('./')) return { lost: 'actions of the repository are not read: write its commands here' };
  if (name.startsWith('docker://')) return { lost: 'a step has no image of its own' };
  return useAction(job, name, tableOf(inputs)) ?? { lost: 'there is no equal to this action' };
}

function runOf(job: Job, step: Table, defaults: Table): Done {
  if (typeof step.run !== 'string') return { lost: 'it has nothing to run' };
  const script = scriptIn(job, step.run.trimEnd());
  if (script === undefined) return { lost: `its value is not known here: ${/\$\{\{[^}]*\}\}/.exec(step.run)?.[0] ?? ''}` };
  const unknown = /\bGITHUB_(?!ENV\b|PATH\b|OUTPUT\b|STEP_SUMMARY\b|TOKEN\b)[A-Z_]+\b/g;
  const wrong = Array.from(script.matchAll(unknown), ([name]) => name).find((name) => !Object.hasOwn(environmentHere, name) && new RegExp(`\\$\\{?${name}`).test(script));
  if (wrong !== undefined) return { lost: `a build has no ${wrong}` };
  const folder = textIn(job, textsOf(step['working-directory'] ?? defaults['working-directory'])[0] ?? '');
  if (!folder) return { lost: 'its working-directory is not known here' };
  const enter = 'text' in folder && ['', '.', './', '/build'].includes(folder.text) ? '' : `cd ${wordOf(folder)}\n`;
  const shell = String(step.shell ?? defaults.shell ?? '');
  const [program] = shell.split(' ');
  if (program === '' || program === 'bash')
    return { command: `${enter}${inBash(script, /^bash(?: -l \{0\}| --login.*)?$/.test(shell) ? '-eo pipefail' : '-e')}` };
  if (program === 'sh') return { command: `${enter}${script}` };
  if (program === 'python') return { command: `${enter}python3 -c ${quote(script)}` };
  if (program === 'node') return { command: `${enter}node -e ${quote(script)}` };
  return { lost: `there is no ${program ?? 'such shell'}` };
}

function exportsForStep(job: Job, step: Table, path: Path, notes: string[]): string[] {
  const { tally } = job;
  return Object.entries(tableOf(step.env)).flatMap(([name, value]) => {
    const resolved = textIn(job, isScalar(value) ? String(value) : '');
    if (!resolved || !/^[A-Za-z_]\w*$/.test(name)) {
      tally.lose({ notes }, [...path, 'env', name], value, 'its value is not known here');
      return [];
    }
    tally.keep();
    const isSame = 'shell' in resolved && resolved.shell === `\${${name}}`;
    return isSame ? [] : [`export ${name}=${wordOf(resolved)}`];
  });
}

/** Variables and files of GitHub that the script reads or writes. */
function helpersOf(script: string): string[] {
  const variables = Object.entries(environmentHere).filter(([name]) => new RegExp(`\\$\\{?${name}\\b`).test(script));
  return [
    ...variables.map(([name, value]) => `export ${name}="${value}"`),
    ...(script.includes('GITHUB_ENV') ? ['export GITHUB_ENV="$HEADRACE_ENV"'] : []),
    ...['GITHUB_PATH', 'GITHUB_OUTPUT', 'GITHUB_STEP_SUMMARY'].filter((name) => script.includes(name)).map((name) => `export ${name}="$(mktemp)"`),
  ];
}

/** Directories that the step adds are in the PATH of later steps. */
function withPath(command: string, script: string): string {
  if (!script.includes('GITHUB_PATH')) return command;
  return `${command}\nwhile read -r directory; do PATH="$directory:$PATH"; done < "$GITHUB_PATH"\necho "PATH=$PATH" >> "$HEADRACE_ENV"`;
}
