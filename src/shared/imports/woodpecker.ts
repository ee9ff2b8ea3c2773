import { rulesOf, testOf } from './conditions.ts';
import { finishSuite } from './finish.ts';
import { writeTables } from './matrix.ts';
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
  textOf,
  textsOf,
  type Keys,
  type Outcome,
  type Path,
  type Read,
  type Source,
  type Suite,
  type Table,
  type Translation,
} from './model.ts';
import { freeName, nameOf } from './names.ts';
import { addService, tagsIn } from './parts.ts';
import { inBash, only, quote } from './shell.ts';
import { exportsFor, ifTag, type Here } from './shell-variables.ts';
import { conditionOf } from './woodpecker-conditions.ts';

/** Woodpecker, and Drone, whose files it inherited. Each document of a file is a pipeline. */
export type Dialect = 'woodpecker' | 'drone';

interface Reader extends Read {
  pipeline: Table;
  name: string;
  /** What all suites of the pipeline have. */
  fields: Suite['fields'];
  rules: Suite['rules'];
}

export function fromWoodpecker(source: Source, dialect: Dialect, stem: string): Read {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const pipeline = tableOf(source.value);
  const { kind = 'pipeline' } = pipeline;
  if (dialect === 'drone' && kind !== 'pipeline') {
    if (kind === 'secret') {
      secret(translation, variableOf(firstOf(pipeline.name) ?? ''));
      tally.keep();
    } else if (kind !== 'signature') tally.lose(translation, ['kind'], kind, 'this kind is not known here');
    return { translation, tally };
  }
  const reader = { translation, tally, pipeline, name: nameOf(firstOf(pipeline.name) ?? stem), fields: {}, rules: [] };
  readKeys(pipeline, topKeys(reader), { tally, target: translation, path: [] });
  tally.keep(); // the pipeline
  const suites = suitesOf(reader, pipeline.steps === undefined ? 'pipeline' : 'steps');
  for (const [service, table] of named(pipeline.services)) readService(reader, service, table, suites);
  suites[0]?.needs.push(...textsOf(pipeline.depends_on));
  for (const suite of suites) {
    suite.rules.push(...reader.rules);
    if (finishSuite(suite)) translation.suites.push(suite);
  }
  return { translation, tally };
}

/** Lists with names, or tables by name. */
function named(value: unknown): [string, Table][] {
  if (isTable(value)) return Object.entries(value).map(([name, one]) => [name, tableOf(one)]);
  return listOf(value).map((one, at) => [firstOf(tableOf(one).name) ?? `step ${at + 1}`, tableOf(one)]);
}

const variableOf = (name: string): string => name.replaceAll(/\W/g, '_').toUpperCase();

function secret({ secrets }: Translation, name: string): void {
  if (/^[A-Za-z_]\w*$/.test(name) && !/^(?:CI$|HEADRACE)/.test(name))
    secrets.set(name, `Set the variable ${name} of the project: the secret of that name there.`);
}

function topKeys({ translation, tally, fields, rules, pipeline, name }: Reader): Keys<Translation> {
  const limit = (value: unknown): Outcome => {
    const condition = conditionOf(value);
    const found = condition && rulesOf(condition);
    if (!found) {
      fields.manual = true;
      return lost('rules cannot say this, so its suites run only by hand');
    }
    rules.push(...found);
    for (const one of listOf(value).flatMap((table) => listOf(tableOf(table).cron)))
      if (isScalar(one))
        tally.lose(
          translation,
          ['when', 'cron'],
          one,
          'the times of a cron are in the settings there: write a schedule',
        );
    return kept();
  };
  const limitMachine = (platform: string): Outcome => {
    if (!platform.startsWith('linux')) return lost('runners are on Linux');
    if (!platform.endsWith('amd64')) fields.tags = [platform.replace(/^linux\//, '').replaceAll(/[^\w.:-]/g, '-')];
    return kept();
  };
  const tagged = (table: Table): Outcome => {
    if (Object.keys(table).length > 0) fields.tags = tagsIn(Object.values(table));
    return kept();
  };
  return {
    ...each('steps pipeline services environment variables kind name version depends_on', elsewhere),
    type: (value) =>
      ['docker', 'kubernetes', 'exec'].includes(textOf(value)) ? elsewhere() : lost('this type is not known here'),
    ...each('when trigger', limit),
    branches: (value) => limit({ branch: value }),
    ...each('clone workspace', kept),
    skip_clone: 'a build always has the files of its commit',
    platform: (value) =>
      limitMachine(isTable(value) ? `${textOf(value.os) || 'linux'}/${textOf(value.arch) || 'amd64'}` : textOf(value)),
    labels: (value) => {
      const { platform, ...others } = tableOf(value);
      const done = tagged(others);
      return platform === undefined ? done : limitMachine(textOf(platform));
    },
    node: (value) => tagged(tableOf(value)),
    matrix: (value) => {
      const { include, ...axes } = tableOf(value);
      const suite = { ...emptySuite(''), fields };
      const problem =
        pipeline.depends_on === null ? 'it has too many combinations' : writeTables(suite, [axes], include);
      return problem === undefined ? kept() : lost(problem);
    },
    runs_on: 'a suite does not run after a failure of what it needs',
    volumes: (value) =>
      listOf(value).every((one) => tableOf(one).temp !== undefined)
        ? kept()
        : lost('a build has no folders of its machine'),
    image_pull_secrets: 'set the registry in the settings',
    concurrency: (value) => {
      fields.concurrency_group = name;
      return tableOf(value).limit === 1 ? kept() : lost('one build of a group runs at a time');
    },
  };
}

/** Steps of one image are one suite. The next one begins with its files. */
function suitesOf(reader: Reader, key: string): Suite[] {
  const { tally, translation, name: pipeline, fields } = reader;
  const list = reader.pipeline[key];
  const suites: Suite[] = [];
  const names = new Set<string>([pipeline]);
  let waiting: string[] = [];
  for (const [at, [name, table]] of named(list).entries()) {
    const notes: string[] = [];
    const command = commandOf(reader, table, { notes }, [key, isTable(list) ? name : at]);
    waiting.push(...notes);
    if (command === undefined) continue;
    const image = firstOf(table.image) ?? '';
    const last = suites.at(-1);
    let suite = last;
    if (!suite || suite.fields.image !== image) {
      suite = emptySuite(freeName(`${pipeline}: ${name}`, names));
      names.add(suite.name);
      Object.assign(suite.fields, structuredClone(fields), image === '' ? {} : { image });
      if (last) {
        suite.needs.push(last.name);
        suite.fields.files_from = last.name;
      }
      suites.push(suite);
    }
    const status = listOf(table.when).flatMap((one) => textsOf(tableOf(one).status));
    const when = status.includes('failure') ? (status.includes('success') ? 'always' : 'failed') : undefined;
    suite.steps.push({ name: nameOf(name), command, ...(when && { when }), notes: waiting });
    waiting = [];
    tally.keep();
  }
  const last = suites.at(-1);
  if (last) last.name = pipeline; // what other pipelines depend on
  if (last) last.steps.push({ name: '', command: '', notes: waiting });
  else translation.notes.push(...waiting);
  return suites;
}

const perPrefix: Here = {
  COMMIT_SHA: '$HEADRACE_COMMIT',
  COMMIT: '$HEADRACE_COMMIT',
  COMMIT_BRANCH: '$HEADRACE_BRANCH',
  BRANCH: '$HEADRACE_BRANCH',
  COMMIT_REF: '$HEADRACE_REF',
  COMMIT_TAG: ifTag,
  TAG: ifTag,
  BUILD_EVENT: '$HEADRACE_EVENT',
  PIPELINE_EVENT: '$HEADRACE_EVENT',
  BUILD_NUMBER: '$HEADRACE_BUILD_ID',
  PIPELINE_NUMBER: '$HEADRACE_BUILD_ID',
  PULL_REQUEST: '$HEADRACE_PULL_REQUEST',
  COMMIT_PULL_REQUEST: '$HEADRACE_PULL_REQUEST',
  COMMIT_TARGET_BRANCH: '$HEADRACE_TARGET_BRANCH',
  TARGET_BRANCH: '$HEADRACE_TARGET_BRANCH',
  WORKSPACE: '/build',
};
const environmentHere: Here = Object.fromEntries(
  Object.entries(perPrefix).flatMap(([name, value]) => [`CI_${name}`, `DRONE_${name}`].map((one) => [one, value])),
);

const keysOfStep =
  'name image commands when environment secrets depends_on pull failure group entrypoint directory resources user';
const keysOfService = 'name image environment commands command ports pull';

const unknownKeys = (table: Table, known: string): string[] =>
  Object.keys(table).filter((key) => !known.split(' ').includes(key));

/** A table, or lines `NAME=value`. A value may be the name of a secret. */
function environmentOf({ environment }: Table): [name: string, content: string, from: string | undefined][] {
  const entries = isTable(environment)
    ? Object.entries(environment)
    : textsOf(environment).map((one) => one.split(/=(.*)/s).slice(0, 2) as [string, unknown]);
  return Object.entries(Object.fromEntries(entries)).map(([name, value]) => {
    const from = isTable(value) ? firstOf(value.from_secret) : undefined;
    return [name, textOf(value), from === undefined ? undefined : variableOf(from)];
  });
}

function commandOf(
  { tally, translation }: Reader,
  table: Table,
  place: { notes: string[] },
  path: Path,
): string | undefined {
  const lose = (key: string, why: string): undefined => tally.lose(place, [...path, key], table[key], why) as undefined;
  if (table.settings !== undefined || (table.commands === undefined && table.entrypoint === undefined))
    return lose('image', 'there are no plug-ins: call the program in a command');
  const condition = table.when === undefined ? { is: true } : conditionOf(table.when);
  const test = condition && testOf(condition);
  if (test === undefined) return lose('when', 'a step does not know this');
  for (const key of unknownKeys(table, keysOfStep))
    lose(key, key === 'detach' ? 'write it as a service' : `a step has no ${key} here`);
  const exports: string[] = [];
  const useSecret = (from: string, name: string): void => {
    secret(translation, from);
    if (from !== name) exports.push(`export ${name}="\${${from}}"`);
    tally.keep();
  };
  for (const [name, content, from] of environmentOf(table)) {
    if (!/^[A-Za-z_]\w*$/.test(name)) lose('environment', `${name} is no name of a variable`);
    else if (from !== undefined) useSecret(from, name);
    else {
      exports.push(`export ${name}=${quote(content)}`);
      tally.keep();
    }
  }
  for (const one of listOf(table.secrets)) {
    const { source, target } = isTable(one) ? one : { source: String(one), target: String(one) };
    useSecret(variableOf(firstOf(source) ?? ''), variableOf(firstOf(target) ?? ''));
  }
  const script = textsOf(table.commands)
    .join('\n')
    .replaceAll('$${', '${')
    .replaceAll(/\$\$(?=\w)/g, '$');
  const reading = { tally, target: place, path: [...path, 'commands'] };
  exports.push(...exportsFor(script, environmentHere, /\$\{?((?:CI|DRONE)_\w+)/g, reading));
  const folder = firstOf(table.directory);
  const own = [...exports, ...(folder === undefined ? [] : [`cd ${quote(folder)}`]), inBash(script)].join('\n');
  const mayFail = table.failure === 'ignore' ? `sh -e -c ${quote(own)} || echo 'This step failed, as it may.'` : own;
  return test === 'true' ? mayFail : only(test, mayFail);
}

function readService({ tally, translation }: Reader, name: string, table: Table, suites: readonly Suite[]): void {
  const path = ['services', name];
  const [first] = suites;
  if (!first) return tally.lose(translation, path, undefined, 'no step is left that it could serve');
  const variables = environmentOf(table).map(([key, content, from]) => {
    if (from !== undefined) secret(translation, from);
    return from === undefined ? { name: key, content } : { name: key, from };
  });
  const command = textsOf(table.commands ?? table.command).join('\n');
  const service = { name, image: firstOf(table.image) ?? '', ...(command !== '' && { command }), variables, notes: [] };
  const [problem] = suites.map((suite) => addService(suite, { ...service, notes: [] }));
  const odd = unknownKeys(table, keysOfService);
  if (problem === undefined && odd.length === 0) tally.keep();
  else tally.lose(first, path, undefined, problem ?? `a service has no ${odd.join(', ')} here`);
}
