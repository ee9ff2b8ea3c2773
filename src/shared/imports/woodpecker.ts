import { allOf, anyOf, matching, negated, rulesOf, testOf, type Condition, type Subject } from './conditions.ts';
import { finishSuite } from './finish.ts';
import { combined, flattened, writeVariants } from './matrix.ts';
import {
  elsewhere,
  emptySuite,
  emptyTranslation,
  isScalar,
  isTable,
  kept,
  listOf,
  readKeys,
  tableOf,
  Tally,
  textsOf,
  type Keys,
  type Outcome,
  type Path,
  type Source,
  type Suite,
  type Table,
  type Translation,
  textOf,
} from './model.ts';
import { freeName, nameOf } from './names.ts';
import { addService } from './parts.ts';
import { inBash, only, quote } from './shell.ts';

/** Woodpecker, and Drone, whose files it inherited. Each document of a file is a pipeline. */
export type Dialect = 'woodpecker' | 'drone';

const lost = (why: string): Outcome => ({ lost: why });

export function fromWoodpecker(
  source: Source,
  dialect: Dialect,
  stem: string,
): { translation: Translation; tally: Tally } {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const pipeline = tableOf(source.value);
  const name = nameOf(textsOf(pipeline.name)[0] ?? stem);
  if (dialect === 'drone' && pipeline.kind !== undefined && pipeline.kind !== 'pipeline') {
    if (pipeline.kind === 'secret') {
      const own = variableOf(textsOf(pipeline.name)[0] ?? '');
      secret(translation, own);
      tally.keep();
    } else if (pipeline.kind !== 'signature')
      tally.lose(translation, ['kind'], pipeline.kind, 'this kind is not known here');
    return { translation, tally };
  }
  const pattern: Reader = { translation, tally, pipeline, name, dialect, fields: {}, rules: [], tests: [] };
  readKeys(pipeline, topKeys(pattern), { tally, target: translation, path: [] });
  const key = pipeline.steps === undefined ? 'pipeline' : 'steps';
  const steps = readList(pipeline[key]).map(([step, table]): StepTable => ({ name: step, table }));
  tally.keep(); // the pipeline
  const suites = suitesOf(pattern, steps, [key]);
  for (const [service, table] of readList(pipeline.services)) readService(pattern, service, table, suites);
  const needs = textsOf(pipeline.depends_on);
  for (const suite of suites) {
    if (suite === suites[0]) suite.needs.push(...needs);
    suite.rules.push(...pattern.rules);
    if (finishSuite(suite)) translation.suites.push(suite);
  }
  return { translation, tally };
}

interface StepTable {
  name: string;
  table: Table;
}

interface Reader {
  translation: Translation;
  tally: Tally;
  pipeline: Table;
  name: string;
  dialect: Dialect;
  fields: Suite['fields'];
  rules: Suite['rules'];
  tests: string[];
}

/** Lists with names, or tables by name. */
function readList(value: unknown): [string, Table][] {
  if (isTable(value)) return Object.entries(value).map(([name, one]) => [name, tableOf(one)]);
  return listOf(value).map((one, at) => [textsOf(tableOf(one).name)[0] ?? `step ${at + 1}`, tableOf(one)]);
}

const variableOf = (name: string): string => name.replaceAll(/\W/g, '_').toUpperCase();

function secret({ secrets }: Translation, name: string): void {
  if (/^[A-Za-z_]\w*$/.test(name) && !/^(?:CI$|HEADRACE)/.test(name))
    secrets.set(name, `Set the variable ${name} of the project: the secret of that name there.`);
}

function topKeys(reader: Reader): Keys<Translation> {
  const { translation, tally, fields, rules, pipeline } = reader;
  const limit = (value: unknown): Outcome => {
    const condition = conditionOf(value);
    const found = condition && rulesOf(condition);
    if (!found || (condition && 'is' in condition && !condition.is)) {
      fields.manual = true;
      return lost('rules cannot say this, so its suites run only by hand');
    }
    rules.push(...found);
    for (const one of listOf(value).flatMap((each) => listOf(tableOf(each).cron)))
      if (isScalar(one))
        tally.lose(
          translation,
          ['when', 'cron'],
          one,
          'the times of a cron are in the settings there: write a schedule',
        );
    return kept();
  };
  return {
    ...Object.fromEntries(
      ['steps', 'pipeline', 'services', 'environment', 'variables', 'kind', 'name', 'version', 'depends_on'].map(
        (name) => [name, elsewhere],
      ),
    ),
    type: (value) =>
      value === 'docker' || value === 'kubernetes' || value === 'exec'
        ? elsewhere()
        : lost('this type is not known here'),
    when: limit,
    trigger: limit,
    branches: (value) => limit({ branch: value }),
    clone: kept,
    workspace: kept,
    skip_clone: 'a build always has the files of its commit',
    platform: (value) =>
      limitMachine(
        fields,
        isTable(value) ? `${textsOf(value.os)[0] ?? 'linux'}/${textsOf(value.arch)[0] ?? 'amd64'}` : String(value),
      ),
    labels: (value) => {
      const { platform, ...others } = tableOf(value);
      if (Object.keys(others).length > 0)
        fields.tags = Object.values(others)
          .flatMap(textsOf)
          .filter((one) => /^[A-Za-z0-9][\w.:-]{0,63}$/.test(one));
      return platform === undefined ? kept() : limitMachine(fields, textOf(platform));
    },
    node: (value) => {
      fields.tags = Object.values(tableOf(value))
        .flatMap(textsOf)
        .filter((one) => /^[A-Za-z0-9][\w.:-]{0,63}$/.test(one));
      return kept();
    },
    matrix: (value) => {
      const { include, ...axes } = tableOf(value);
      const lists = Object.entries(axes).map(([axis, values]) => listOf(values).map((one) => flattened(one, axis)));
      const all = lists.length === 0 ? [] : combined(lists);
      const added = listOf(include).map(
        (one) => new Map(Object.entries(tableOf(one)).map(([axis, each]) => [axis, String(each)])),
      );
      if (!all || pipeline.depends_on === null) return lost('it has too many combinations');
      if ([...all, ...added].some((one) => one.values().some((text) => !/^[^\s,]+$/.test(text))))
        return lost('a value of a matrix has no blanks and commas');
      const suite = emptySuite('');
      const keys = new Map(
        [...all, ...added].flatMap((one) => Array.from(one.keys(), (axis) => [axis, axis] as const)),
      );
      const written = writeVariants(suite, [...all, ...added], keys);
      if ('problem' in written) return lost(written.problem);
      Object.assign(fields, suite.fields);
      return kept();
    },
    runs_on: 'a suite does not run after a failure of what it needs',
    volumes: (value) =>
      listOf(value).every((one) => tableOf(one).temp !== undefined)
        ? kept()
        : lost('a build has no folders of its machine'),
    image_pull_secrets: 'set the registry in the settings',
    concurrency: (value) => {
      fields.concurrency_group = reader.name;
      return tableOf(value).limit === 1 ? kept() : lost('one build of a group runs at a time');
    },
  };
}

function limitMachine(fields: Suite['fields'], platform: string): Outcome {
  if (!platform.startsWith('linux')) return lost('runners are on Linux');
  if (!platform.endsWith('amd64')) fields.tags = [platform.replace(/^linux\//, '').replaceAll(/[^\w.:-]/g, '-')];
  return kept();
}

const events: Readonly<Record<string, readonly string[]>> = {
  push: ['push', 'poll'],
  tag: ['tag'],
  pull_request: ['pull_request'],
  pull_request_closed: [],
  cron: ['schedule'],
  manual: ['manual'],
  custom: ['manual'],
};

/** `event`, `branch`, `path` and `status`, each a value, a list, or `include` and `exclude`. Several are alternatives. */
function conditionOf(given: unknown): Condition | undefined {
  const all = listOf(given).map((one) => ofOne(tableOf(one)));
  return all.every((one) => one !== undefined) ? anyOf(all) : undefined;
}

const kindOf = (refs: readonly string[]): Subject =>
  refs.every((one) => one.startsWith('refs/tags/')) ? 'tag' : 'branch';

function ofOne(table: Table): Condition | undefined {
  const parts = Object.entries(table).map(([key, value]): Condition | undefined => {
    const [yes, no] = isTable(value) ? [textsOf(value.include), textsOf(value.exclude)] : [textsOf(value), []];
    const both = (make: (list: readonly string[]) => Condition): Condition =>
      allOf([...(yes.length > 0 ? [make(yes)] : []), ...(no.length > 0 ? [negated(make(no))] : [])]);
    if (key === 'event')
      return [...yes, ...no].every((one) => Object.hasOwn(events, one))
        ? both((list) => ({ subject: 'event', values: list.flatMap((one) => events[one] ?? []) }))
        : undefined;
    if (key === 'branch' || key === 'branches') return both((list) => matching('branch', list));
    if (key === 'ref') {
      if (![...yes, ...no].every((one) => /^refs\/(?:tags|heads)\//.test(one))) return undefined;
      return both((list) =>
        matching(
          kindOf(list),
          list.map((one) => one.replace(/^refs\/(?:tags|heads)\//, '')),
        ),
      );
    }
    if (key === 'path') return both((list) => matching('files', list));
    if (key === 'status' || key === 'cron') return { is: true };
    if (key === 'repo' || key === 'instance') return { is: true };
    return key === 'platform' && yes.every((one) => one.startsWith('linux')) ? { is: true } : undefined;
  });
  return parts.every((one) => one !== undefined) ? allOf(parts) : undefined;
}

function statusOf(given: unknown): 'failed' | 'always' | undefined {
  const all = listOf(given).flatMap((one) => textsOf(tableOf(one).status));
  if (!all.includes('failure')) return undefined;
  return all.includes('success') ? 'always' : 'failed';
}

/** Steps of one image are one suite. The next one begins with its files. */
function suitesOf(reader: Reader, steps: readonly StepTable[], path: Path): Suite[] {
  const { tally, translation, name: pipeline, fields } = reader;
  const suites: Suite[] = [];
  const names = new Set<string>([pipeline]);
  let waiting: string[] = [];
  for (const [at, step] of steps.entries()) {
    const { table, name } = step;
    const where = [...path, isTable(reader.pipeline[path[0] ?? '']) ? name : at];
    const place = { name: '', command: '', notes: [] as string[] };
    const image = textsOf(table.image)[0] ?? '';
    const command = commandOf(reader, table, place, where);
    if (command === undefined) {
      waiting.push(...place.notes);
      continue;
    }
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
    const status = statusOf(table.when);
    suite.steps.push({
      name: nameOf(name),
      command,
      ...(status && { when: status }),
      notes: [...waiting, ...place.notes],
    });
    waiting = [];
    tally.keep();
  }
  const last = suites.at(-1);
  if (last) last.name = pipeline; // what other pipelines depend on
  if (last) last.steps.push({ name: '', command: '', notes: waiting });
  else translation.notes.push(...waiting);
  return suites;
}

const environmentHere: Readonly<Record<string, string>> = {
  COMMIT_SHA: '$HEADRACE_COMMIT',
  COMMIT: '$HEADRACE_COMMIT',
  COMMIT_BRANCH: '$HEADRACE_BRANCH',
  BRANCH: '$HEADRACE_BRANCH',
  COMMIT_REF: '$HEADRACE_REF',
  COMMIT_TAG: '$([ "$HEADRACE_EVENT" != tag ] || printf %s "$HEADRACE_REF")',
  TAG: '$([ "$HEADRACE_EVENT" != tag ] || printf %s "$HEADRACE_REF")',
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

function commandOf(reader: Reader, table: Table, place: { notes: string[] }, path: Path): string | undefined {
  const { tally, translation } = reader;
  const lose = (key: string, why: string): undefined => {
    tally.lose(place, [...path, key], table[key], why);
    return undefined;
  };
  if (table.settings !== undefined || (table.commands === undefined && table.entrypoint === undefined))
    return lose('image', 'there are no plug-ins: call the program in a command');
  const condition = table.when === undefined ? { is: true } : conditionOf(table.when);
  const test = condition && testOf(condition);
  if (test === undefined) return lose('when', 'a step does not know this');
  const keys = new Set([
    'name',
    'image',
    'commands',
    'when',
    'environment',
    'secrets',
    'depends_on',
    'pull',
    'failure',
    'group',
    'entrypoint',
    'directory',
    'resources',
    'user',
  ]);
  for (const key of Object.keys(table))
    if (!keys.has(key)) lose(key, key === 'detach' ? 'write it as a service' : `a step has no ${key} here`);
  const exports: string[] = [];
  for (const [name, value] of Object.entries(
    isTable(table.environment)
      ? table.environment
      : Object.fromEntries(textsOf(table.environment).map((one) => one.split(/=(.*)/s).slice(0, 2))),
  )) {
    const from = isTable(value) ? textsOf(value.from_secret)[0] : undefined;
    if (!/^[A-Za-z_]\w*$/.test(name)) {
      lose('environment', `${name} is no name of a variable`);
      continue;
    }
    tally.keep();
    if (from === undefined) exports.push(`export ${name}=${quote(isScalar(value) ? String(value) : '')}`);
    else {
      secret(translation, variableOf(from));
      if (variableOf(from) !== name) exports.push(`export ${name}="\${${variableOf(from)}}"`);
    }
  }
  for (const one of listOf(table.secrets)) {
    const [from, to] = isTable(one)
      ? [textsOf(one.source)[0] ?? '', textsOf(one.target)[0] ?? '']
      : [String(one), String(one)];
    secret(translation, variableOf(from));
    if (variableOf(from) !== variableOf(to)) exports.push(`export ${variableOf(to)}="\${${variableOf(from)}}"`);
    tally.keep();
  }
  const script = textsOf(table.commands)
    .join('\n')
    .replaceAll('$${', '${')
    .replaceAll(/\$\$(?=\w)/g, '$');
  for (const [, prefix = '', name = ''] of script.matchAll(/\$\{?(CI|DRONE)_(\w+)/g)) {
    const line = `export ${prefix}_${name}="${environmentHere[name] ?? ''}"`;
    if (!Object.hasOwn(environmentHere, name))
      tally.lose(place, [...path, 'commands'], `$${prefix}_${name}`, 'a build has no such variable');
    else if (!exports.includes(line)) exports.push(line);
  }
  const folder = textsOf(table.directory)[0];
  const own = [...exports, ...(folder === undefined ? [] : [`cd ${quote(folder)}`]), inBash(script)].join('\n');
  const mayFail = table.failure === 'ignore' ? `sh -e -c ${quote(own)} || echo 'This step failed, as it may.'` : own;
  return test === 'true' ? mayFail : only(test, mayFail);
}

function readService({ tally, translation }: Reader, name: string, table: Table, suites: readonly Suite[]): void {
  const path = ['services', name];
  const [first] = suites;
  if (!first) return tally.lose(translation, path, undefined, 'no step is left that it could serve');
  const given = isTable(table.environment)
    ? table.environment
    : Object.fromEntries(textsOf(table.environment).map((one) => one.split(/=(.*)/s).slice(0, 2)));
  const variables = Object.entries(given).map(([key, value]) => {
    const from = isTable(value) ? textsOf(value.from_secret)[0] : undefined;
    if (from !== undefined) secret(translation, variableOf(from));
    return from === undefined
      ? { name: key, content: isScalar(value) ? String(value) : '' }
      : { name: key, from: variableOf(from) };
  });
  const command = textsOf(table.commands ?? table.command).join('\n');
  const image = textsOf(table.image)[0] ?? '';
  for (const [at, suite] of suites.entries()) {
    const problem = addService(suite, { name, image, ...(command !== '' && { command }), variables, notes: [] });
    if (at > 0) continue;
    const odd = Object.keys(table).filter(
      (key) => !['name', 'image', 'environment', 'commands', 'command', 'ports', 'pull'].includes(key),
    );
    if (problem !== undefined || odd.length > 0)
      tally.lose(suite, path, undefined, problem ?? `a service has no ${odd.join(', ')} here`);
    else tally.keep();
  }
}
