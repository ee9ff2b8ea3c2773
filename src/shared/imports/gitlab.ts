import { negated, rulesOf, type Condition } from './conditions.ts';
import { conditionOfRules, ofRefs, type Repository } from './gitlab-conditions.ts';
import { finishSuite } from './finish.ts';
import { Templates } from './gitlab-templates.ts';
import {
  each,
  elsewhere,
  emptySuite,
  emptyTranslation,
  firstOf,
  isScalar,
  isTable,
  kept,
  listOf,
  lost,
  readKeys,
  tableOf,
  Tally,
  textsOf,
  unless,
  type Keys,
  type Outcome,
  type Path,
  type Read,
  type Source,
  type Suite,
  type Table,
  type Translation,
} from './model.ts';
import { writeTables } from './matrix.ts';
import { nameOf, tidyName } from './names.ts';
import { addArtifacts, addCache, addService, addVariable, tagsIn } from './parts.ts';
import { inBash } from './shell.ts';
import { exportsFor, ifTag, type Here } from './shell-variables.ts';

const globals = 'default image services cache before_script after_script variables stages types workflow include spec';
const global = new Set(globals.split(' '));

export function fromGitlab(source: Source, repository: Repository): Read {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const file = tableOf(source.value);
  const top: Keys<Translation> = {
    ...each(globals, elsewhere),
    ...each('stages types', kept),
    include: 'files of other places are not read: write their jobs here',
    workflow: (value) => (tableOf(value).rules === undefined ? kept() : elsewhere()),
  };
  const own = Object.fromEntries(Object.entries(file).filter(([name]) => global.has(name)));
  readKeys(own, top, { tally, target: translation, path: [] });
  const rules = listOf(tableOf(file.workflow).rules);
  const workflow = rules.length === 0 ? { condition: always, isManual: false } : conditionOfRules(rules, repository);
  if (!workflow) tally.lose(translation, ['workflow', 'rules'], undefined, 'rules of suites cannot say this');
  else if (rules.length > 0) tally.keep();
  const jobs = Object.entries(file).filter(
    ([name, value]) => !global.has(name) && !name.startsWith('.') && isTable(value),
  );
  const names = new Map(jobs.map(([name]) => [name, nameOf(name)]));
  const named = textsOf(file.stages);
  const stages = ['.pre', ...(named.length > 0 ? named : ['build', 'test', 'deploy']), '.post'];
  const templates = new Templates(file);
  const whole = new Map(jobs.map(([name]) => [name, templates.whole(name)]));
  for (const [name, table] of whole) {
    const suite = table
      ? jobOf({ name, table, file, tally, translation, repository, stages, whole, names })
      : undefined;
    if (!table) tally.lose(translation, [name, 'extends'], undefined, 'it extends something that is not in this file');
    if (!suite) continue;
    const limits = workflow && rulesOf(workflow.condition);
    suite.rules.unshift(...(limits ?? []));
    translation.suites.push(suite);
  }
  return { translation, tally };
}

const always: Condition = { is: true };

interface About extends Read {
  name: string;
  table: Table;
  file: Table;
  repository: Repository;
  stages: readonly string[];
  whole: ReadonlyMap<string, Table | undefined>;
  names: ReadonlyMap<string, string>;
}

/** What scripts read of GitLab's variables, as it is here. */
const environmentHere: Here = {
  CI_COMMIT_SHA: '$HEADRACE_COMMIT',
  CI_COMMIT_SHORT_SHA: '$(printf %.8s "$HEADRACE_COMMIT")',
  CI_COMMIT_REF_NAME: '$HEADRACE_REF',
  CI_COMMIT_BRANCH: '$HEADRACE_BRANCH',
  CI_COMMIT_REF_SLUG: `$(printf %s "$HEADRACE_REF" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9]/-/g' | cut -c1-63)`,
  CI_COMMIT_TAG: ifTag,
  CI_PROJECT_DIR: '/build',
  CI_BUILDS_DIR: '/build',
  CI_JOB_ID: '$HEADRACE_BUILD_ID',
  CI_JOB_NAME: '$HEADRACE_SUITE',
  CI_PIPELINE_ID: '$HEADRACE_BUILD_ID',
  CI_PIPELINE_IID: '$HEADRACE_BUILD_ID',
  CI_PIPELINE_SOURCE: '$HEADRACE_EVENT',
  CI_MERGE_REQUEST_IID: '$HEADRACE_PULL_REQUEST',
  CI_MERGE_REQUEST_TARGET_BRANCH_NAME: '$HEADRACE_TARGET_BRANCH',
};

function jobOf(about: About): Suite | undefined {
  const { name, table, file, tally, translation, stages, whole, names } = about;
  const suite = emptySuite(names.get(name) ?? nameOf(name));
  const drop = (path: Path, why: string): undefined => {
    translation.notes.push(...suite.notes);
    tally.lose(translation, path, undefined, why);
    return undefined;
  };
  if (table.trigger !== undefined) return drop([name, 'trigger'], 'a suite starts no pipeline of another project');
  if (table.script === undefined) return drop([name], 'it has no script');
  const stageOf = (other: Table | undefined): number => stages.indexOf(firstOf(other?.stage) ?? 'test');
  const own = stageOf(table);
  if (table.needs === undefined) {
    const earlier = [...whole].filter(([, other]) => other && stageOf(other) < own && stageOf(other) >= 0);
    const last = Math.max(-1, ...earlier.map(([, other]) => stageOf(other)));
    suite.needs = earlier.flatMap(([other, one]) => (stageOf(one) === last ? [names.get(other) ?? other] : []));
  }
  for (const [key, value] of Object.entries(tableOf(file.variables))) {
    const content = isTable(value) ? firstOf(value.value) : isScalar(value) ? String(value) : undefined;
    if (content !== undefined) addVariable(suite, { name: key, content });
    if (translation.suites.length === 0) tally.keep();
  }
  readKeys(table, keysOf(about, suite), { tally, target: suite, path: [name] });
  tally.keep(); // the job
  const script = [...textsOf(table.before_script), ...textsOf(table.script)].join('\n');
  const after = textsOf(table.after_script).join('\n');
  const reading = {
    tally,
    target: suite,
    path: [name, 'script'],
    own: new Set(suite.variables.map((one) => one.name)),
  };
  const exports = exportsFor(`${script}\n${after}`, environmentHere, /\$\{?((?:CI|GITLAB)_\w+)/g, reading);
  const add = (step: string, text: string, when?: 'always'): void => {
    const command = [...exports, inBash(text)].join('\n');
    suite.steps.push({ name: step, command, ...(when && { when }), notes: [] });
  };
  add('script', script);
  if (after !== '') add('after_script', after, 'always');
  filesFrom(about, suite);
  return finishSuite(suite) ? suite : drop([name], 'it has nothing to run');
}

/** The files of the only earlier job that has artifacts. */
function filesFrom({ name, table, whole, names, tally }: About, suite: Suite): void {
  const wanted = table.dependencies === undefined ? undefined : textsOf(table.dependencies);
  const without = new Set(
    listOf(table.needs).flatMap((one) => (isTable(one) && one.artifacts === false ? textsOf(one.job) : [])),
  );
  const makers = [...whole].filter(
    ([other, one]) =>
      suite.needs.includes(names.get(other) ?? '') &&
      tableOf(one?.artifacts).paths !== undefined &&
      !without.has(other) &&
      (wanted?.includes(other) ?? true),
  );
  const [first] = makers;
  if (makers.length === 1 && first && first[1]?.parallel === undefined)
    suite.fields.files_from = names.get(first[0]) ?? '';
  else if (makers.length > 0)
    tally.lose(
      suite,
      [name, table.dependencies === undefined ? 'needs' : 'dependencies'],
      makers.map(([other]) => other).join(', '),
      'a suite begins with the files of one suite',
    );
}

const minutes: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

function secondsOf(text: string): number {
  const parts = Array.from(
    text.matchAll(/(\d+)\s*([a-z])[a-z]*/gi),
    ([, number = '', unit = '']) => Number(number) * (minutes[unit.toLowerCase()] ?? 0),
  );
  return parts.reduce((sum, one) => sum + one, 0);
}

const imageOf = (value: unknown): string | undefined =>
  firstOf(isTable(value) ? value.name : value)?.replaceAll(
    /\$\{?CI_DEPENDENCY_PROXY_(?:GROUP|DIRECT_GROUP)_IMAGE_PREFIX\}?\//g,
    '',
  );

function keysOf(about: About, suite: Suite): Keys<Suite> {
  const { file, tally, translation, repository, whole, names } = about;
  const expanded = (text: string): string | undefined => {
    const all = { ...tableOf(file.variables), ...tableOf(about.table.variables) };
    const result = text.replaceAll(/\$\{?(\w+)\}?/g, (whole_, key: string) =>
      isScalar(all[key]) ? String(all[key]) : whole_,
    );
    return result.includes('$') && suite.fields.matrix === undefined && suite.fields.matrix_include === undefined
      ? undefined
      : result;
  };
  const serviceOf = (image: string | undefined, { alias, variables: own }: Table): string | undefined => {
    if (image === undefined || image === '') return 'its name is not known here';
    if (/(?:^|\/)docker:/.test(image))
      return 'a build has no container engine: write builds_images = true, and make images with buildah';
    const given = { ...tableOf(file.variables), ...tableOf(about.table.variables), ...tableOf(own) };
    const variables = Object.entries(given).flatMap(([name, content]) =>
      isScalar(content) && !/\$/.test(String(content)) && /^[A-Za-z_]\w*$/.test(name)
        ? [{ name, content: String(content) }]
        : [],
    );
    const name = tidyName(firstOf(alias)?.split(/[ ,]/)[0] ?? image.replace(/^.*\//, '').replace(/[:@].*$/, ''));
    return addService(suite, { name, image, variables, notes: [] });
  };
  return {
    ...each('script before_script after_script stage inherit dependencies', kept),
    image: (value) => {
      const image = expanded(imageOf(value) ?? '');
      if (image === undefined || image === '') return lost('its name is not known here');
      suite.fields.image = image;
      return kept();
    },
    services: (value, { path }) => {
      for (const [at, one] of listOf(value).entries()) {
        const table = tableOf(one);
        const problem = serviceOf(expanded(imageOf(one) ?? ''), table);
        const hasCommand = textsOf(table.command).length > 0;
        if (problem === undefined && !hasCommand) tally.keep();
        else tally.lose(suite, [...path, at], imageOf(one), problem ?? 'its command is not carried over');
      }
      return elsewhere();
    },
    variables: (value, { path }) => {
      for (const [name, one] of Object.entries(tableOf(value))) {
        const content = isTable(one) ? firstOf(one.value) : isScalar(one) ? String(one) : '';
        const problem = addVariable(suite, { name, content: content ?? '' });
        if (problem === undefined) tally.keep();
        else tally.lose(suite, [...path, name], content, problem);
      }
      return elsewhere();
    },
    cache: (value) =>
      unless(
        addCache(
          suite,
          listOf(value).flatMap((one) => textsOf(tableOf(one).paths)),
        ),
      ),
    artifacts: (value) => {
      const table = tableOf(value);
      const reports = tableOf(table.reports);
      const problem = addArtifacts(suite, textsOf(table.paths));
      const junit = textsOf(reports.junit);
      if (junit.length > 0) suite.fields.reports = junit;
      const others = Object.keys(reports).filter((name) => name !== 'junit');
      if (problem !== undefined) return lost(problem);
      if (table.exclude !== undefined) return lost('exclude: artifacts are all that match');
      return others.length === 0 ? kept() : lost(`reports here are JUnit, and not ${others.join(', ')}`);
    },
    needs: (value, { path }) => {
      const needs = new Set<string>();
      for (const one of listOf(value)) {
        const table: Table = isTable(one) ? one : { job: String(one) };
        const job = firstOf(table.job);
        const isOther = table.project !== undefined || table.pipeline !== undefined;
        const isHere = job !== undefined && whole.has(job);
        if (isHere && !isOther) needs.add(names.get(job) ?? job);
        if (isOther || (job !== undefined && !isHere && table.optional !== true))
          tally.lose(suite, path, job, 'this job is not in the file');
      }
      suite.needs = [...needs];
      return kept();
    },
    when: (value) => {
      if (value === 'manual') suite.fields.manual = true;
      else if (value === 'on_failure' || value === 'delayed' || value === 'never')
        return lost('a suite starts when what it needs has passed');
      return kept();
    },
    allow_failure: (value) => {
      if (value === true) suite.fields.allow_failure = true;
      return isTable(value) ? lost('by exit status is not possible') : kept();
    },
    tags: (value) => {
      const tags = tagsIn(value);
      if (tags.length > 0) suite.fields.tags = tags;
      return kept();
    },
    timeout: (value) => {
      const seconds = typeof value === 'number' ? value : secondsOf(String(value));
      if (!(seconds > 0)) return lost('this is no time');
      suite.fields.timeout = Math.min(seconds, 2_592_000);
      return kept();
    },
    retry: (value) => {
      const most = Number(isTable(value) ? value.max : value);
      if (!Number.isInteger(most) || most < 0) return lost('this is no number');
      suite.fields.retries = Math.min(most, 3);
      return kept();
    },
    resource_group: (value) => {
      suite.fields.concurrency_group = nameOf(String(value));
      return kept();
    },
    parallel: (value) =>
      isTable(value) ? unless(writeTables(suite, listOf(value.matrix))) : lost('a matrix names its values'),
    rules: (value) => {
      const found = conditionOfRules(listOf(value), repository);
      if (found?.isManual === true) suite.fields.manual = true;
      if (!found || !('is' in found.condition) || found.condition.is) return limited(suite, found?.condition);
      suite.fields.manual = true;
      return kept();
    },
    only: (value) => limited(suite, ofRefs(value, repository)),
    except: (value) => {
      const condition = ofRefs(value, repository);
      return limited(suite, condition && negated(condition));
    },
    interruptible: (value) => {
      if (value === true)
        translation.toSet.add(
          'Set cancel_superseded of the project to running, so that a newer commit cancels older builds.',
        );
      return kept();
    },
    coverage: 'a build has no coverage',
    environment: 'there are no environments: a deploy strategy can run the suite',
    id_tokens: (value) =>
      Object.keys(tableOf(value)).length === 0
        ? kept()
        : lost('write id_tokens = [{ variable = "…", audience = "…" }]'),
    pages: 'there are no pages',
    release: 'there are no releases',
    secrets: 'set them as secret variables of the project',
  };
}

function limited(suite: Suite, condition: Condition | undefined): Outcome {
  const rules = condition && rulesOf(condition);
  suite.rules.push(...(rules ?? []));
  if (rules) return kept();
  suite.fields.manual = true;
  return lost('rules of a suite cannot say this, so it runs only by hand');
}
