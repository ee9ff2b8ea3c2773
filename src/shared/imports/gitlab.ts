import { negated, rulesOf, type Condition } from './conditions.ts';
import { conditionOfRules, ofRefs, type Repository } from './gitlab-conditions.ts';
import { finishSuite } from './finish.ts';
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
} from './model.ts';
import { combined, flattened, writeVariants } from './matrix.ts';
import { nameOf, tidyName } from './names.ts';
import { addArtifacts, addCache, addService, addVariable } from './parts.ts';
import { inBash } from './shell.ts';

const global = new Set([
  'default',
  'image',
  'services',
  'cache',
  'before_script',
  'after_script',
  'variables',
  'stages',
  'types',
  'workflow',
  'include',
  'spec',
]);
/** A job takes these from `default`, or from the top of the file. */
const inherited = [
  'image',
  'services',
  'cache',
  'before_script',
  'after_script',
  'artifacts',
  'tags',
  'retry',
  'timeout',
  'interruptible',
];

const lost = (why: string): Outcome => ({ lost: why });

export function fromGitlab(source: Source, repository: Repository): { translation: Translation; tally: Tally } {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const file = tableOf(source.value);
  const top: Keys<Translation> = {
    ...Object.fromEntries([...global].map((name) => [name, elsewhere])),
    stages: kept,
    types: kept,
    include: 'files of other places are not read: write their jobs here',
    workflow: (value) => (tableOf(value).rules === undefined ? kept() : elsewhere()),
  };
  const globals = Object.fromEntries(Object.entries(file).filter(([name]) => global.has(name)));
  readKeys(globals, top, { tally, target: translation, path: [] });
  const rules = listOf(tableOf(file.workflow).rules);
  const workflow = rules.length === 0 ? { condition: always, isManual: false } : conditionOfRules(rules, repository);
  if (!workflow) tally.lose(translation, ['workflow', 'rules'], undefined, 'rules of suites cannot say this');
  else if (rules.length > 0) tally.keep();
  const jobs = Object.entries(file).filter(
    ([name, value]) => !global.has(name) && !name.startsWith('.') && isTable(value),
  );
  const names = new Map(jobs.map(([name]) => [name, nameOf(name)]));
  const stages = [
    '.pre',
    ...(textsOf(file.stages).length > 0 ? textsOf(file.stages) : ['build', 'test', 'deploy']),
    '.post',
  ];
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

/** What a file extends and refers to. Each job is merged once, and references are put in so often only. */
class Templates {
  readonly #file: Table;
  readonly #merged = new Map<string, Table | undefined>();
  #room = 10_000;

  constructor(file: Table) {
    this.#file = file;
  }

  /** With all that applies to it. Undefined if something is missing. */
  whole(name: string): Table | undefined {
    const own = this.#extended(name);
    if (!own) return undefined;
    const file = this.#file;
    const top = Object.fromEntries(inherited.flatMap((key) => (file[key] === undefined ? [] : [[key, file[key]]])));
    const wanted = tableOf(own.inherit).default;
    const isOff = (key: string): boolean => wanted === false || (Array.isArray(wanted) && !wanted.includes(key));
    const usual = Object.entries({ ...top, ...tableOf(file.default) });
    const taken = Object.fromEntries(usual.filter(([key]) => inherited.includes(key) && !isOff(key)));
    return this.#referenced({ ...taken, ...own }, 0) as Table;
  }

  /** A cycle ends in nothing. */
  #extended(name: string): Table | undefined {
    const own = this.#file[name];
    if (this.#merged.has(name) || !isTable(own)) return this.#merged.get(name);
    this.#merged.set(name, undefined);
    let merged: Table = {};
    for (const base of new Set(textsOf(own.extends))) {
      const inner = this.#extended(base);
      if (!inner) return undefined;
      merged = deepMerged(merged, inner);
    }
    const { extends: _, ...rest } = deepMerged(merged, own);
    this.#merged.set(name, rest);
    return rest;
  }

  /** `!reference [.setup, script]` is what is there. */
  #referenced(value: unknown, level: number): unknown {
    if (typeof value !== 'object' || value === null) return value;
    this.#room -= 1;
    if (level > mostLevels || this.#room < 0) return undefined;
    if (Array.isArray(value)) return value.map((one) => this.#referenced(one, level + 1));
    const { [reference]: target, ...others } = value as Table;
    if (target === undefined)
      return Object.fromEntries(Object.entries(others).map(([key, one]) => [key, this.#referenced(one, level + 1)]));
    const [job = '', ...keys] = textsOf(target);
    return this.#referenced(
      keys.reduce<unknown>((at, key) => tableOf(at)[key], this.#extended(job)),
      level + 1,
    );
  }
}

const mostLevels = 20;

function deepMerged(base: Table, over: Table): Table {
  const merged = Object.entries(over).map(([key, value]) => {
    const before = Object.hasOwn(base, key) ? base[key] : undefined;
    return [key, isTable(value) && isTable(before) ? deepMerged(before, value) : value] as const;
  });
  return { ...base, ...Object.fromEntries(merged) };
}

export const reference = '!reference';

interface About {
  name: string;
  table: Table;
  file: Table;
  tally: Tally;
  translation: Translation;
  repository: Repository;
  stages: readonly string[];
  whole: ReadonlyMap<string, Table | undefined>;
  names: ReadonlyMap<string, string>;
}

/** What scripts read of GitLab's variables, as it is here. */
const environmentHere: Readonly<Record<string, string>> = {
  CI_COMMIT_SHA: '$HEADRACE_COMMIT',
  CI_COMMIT_SHORT_SHA: '$(printf %.8s "$HEADRACE_COMMIT")',
  CI_COMMIT_REF_NAME: '$HEADRACE_REF',
  CI_COMMIT_BRANCH: '$HEADRACE_BRANCH',
  CI_COMMIT_REF_SLUG: `$(printf %s "$HEADRACE_REF" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9]/-/g' | cut -c1-63)`,
  CI_COMMIT_TAG: '$([ "$HEADRACE_EVENT" != tag ] || printf %s "$HEADRACE_REF")',
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
  const stageOf = (other: Table | undefined): number => stages.indexOf(textsOf(other?.stage)[0] ?? 'test');
  const own = stageOf(table);
  if (table.needs === undefined) {
    const earlier = [...whole].filter(([, other]) => other && stageOf(other) < own && stageOf(other) >= 0);
    const last = Math.max(-1, ...earlier.map(([, other]) => stageOf(other)));
    suite.needs = earlier.flatMap(([other, one]) => (stageOf(one) === last ? [names.get(other) ?? other] : []));
  }
  for (const [key, value] of Object.entries(tableOf(file.variables))) {
    const content = isTable(value) ? textsOf(value.value)[0] : isScalar(value) ? String(value) : undefined;
    if (content !== undefined) addVariable(suite, { name: key, content });
    if (translation.suites.length === 0) tally.keep();
  }
  readKeys(table, keysOf(about, suite), { tally, target: suite, path: [name] });
  tally.keep(); // the job
  const before = textsOf(table.before_script);
  const script = [...before, ...textsOf(table.script)].join('\n');
  const after = textsOf(table.after_script).join('\n');
  const used = new Set(
    Array.from(`${script}\n${after}`.matchAll(/\$\{?((?:CI|GITLAB)_\w+)/g), ([, used_ = '']) => used_),
  );
  const declared = new Set(suite.variables.map((one) => one.name));
  const exports = [...used].flatMap((one) =>
    Object.hasOwn(environmentHere, one) ? [`export ${one}="${environmentHere[one]}"`] : [],
  );
  for (const one of used)
    if (!Object.hasOwn(environmentHere, one) && !declared.has(one))
      tally.lose(suite, [name, 'script'], `$${one}`, 'a build has no such variable');
  const add = (step: string, text: string, when?: 'always'): void => {
    suite.steps.push({
      name: step,
      command: [...exports, inBash(text)].join('\n'),
      ...(when && { when }),
      notes: [],
    });
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
  textsOf(isTable(value) ? value.name : value)[0]?.replaceAll(
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
  return {
    ...Object.fromEntries(['script', 'before_script', 'after_script'].map((name) => [name, kept])),
    stage: kept,
    inherit: kept,
    image: (value) => {
      const image = expanded(imageOf(value) ?? '');
      if (image === undefined || image === '') return lost('its name is not known here');
      suite.fields.image = image;
      return kept();
    },
    services: (value, { path }) => {
      for (const [at, one] of listOf(value).entries()) {
        const image = expanded(imageOf(one) ?? '');
        const alias = isTable(one) ? textsOf(one.alias)[0] : undefined;
        const given = {
          ...tableOf(file.variables),
          ...tableOf(about.table.variables),
          ...tableOf(tableOf(one).variables),
        };
        const variables = Object.entries(given).flatMap(([name, content]) =>
          isScalar(content) && !/\$/.test(String(content)) && /^[A-Za-z_]\w*$/.test(name)
            ? [{ name, content: String(content) }]
            : [],
        );
        const command = isTable(one) ? textsOf(one.command) : [];
        const isDocker = /(?:^|\/)docker:/.test(image ?? '');
        const problem =
          image === undefined || image === ''
            ? 'its name is not known here'
            : isDocker
              ? 'a build has no container engine: write builds_images = true, and make images with buildah'
              : addService(suite, {
                  name: tidyName(alias?.split(/[ ,]/)[0] ?? image.replace(/^.*\//, '').replace(/[:@].*$/, '')),
                  image,
                  variables,
                  notes: [],
                });
        if (problem !== undefined || command.length > 0)
          tally.lose(suite, [...path, at], imageOf(one), problem ?? 'its command is not carried over');
        else tally.keep();
      }
      return elsewhere();
    },
    variables: (value, { path }) => {
      for (const [name, one] of Object.entries(tableOf(value))) {
        const content = isTable(one) ? textsOf(one.value)[0] : isScalar(one) ? String(one) : '';
        const problem = addVariable(suite, { name, content: content ?? '' });
        if (problem === undefined) tally.keep();
        else tally.lose(suite, [...path, name], content, problem);
      }
      return elsewhere();
    },
    cache: (value) => {
      const problem = addCache(
        suite,
        listOf(value).flatMap((one) => textsOf(tableOf(one).paths)),
      );
      return problem === undefined ? kept() : lost(problem);
    },
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
      const all = listOf(value).map((one) =>
        isTable(one)
          ? {
              name: textsOf(one.job)[0],
              isOptional: one.optional === true,
              isOther: one.project !== undefined || one.pipeline !== undefined,
            }
          : { name: String(one), isOptional: false, isOther: false },
      );
      suite.needs = [
        ...new Set(
          all.flatMap(({ name, isOther }) =>
            name !== undefined && !isOther && whole.has(name) ? [names.get(name) ?? name] : [],
          ),
        ),
      ];
      for (const { name, isOptional, isOther } of all)
        if (isOther || (name !== undefined && !whole.has(name) && !isOptional))
          tally.lose(suite, path, name, 'this job is not in the file');
      return kept();
    },
    dependencies: kept,
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
      const tags = textsOf(value)
        .filter((one) => /^[A-Za-z0-9][\w.:-]{0,63}$/.test(one))
        .slice(0, 16);
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
    parallel: (value) => {
      const lists = listOf(tableOf(value).matrix).map((one) => {
        const axes = Object.entries(tableOf(one)).map(([name, values]) =>
          listOf(values).map((each) => flattened(each, name)),
        );
        return combined(axes);
      });
      if (!isTable(value) || lists.some((one) => one === undefined)) return lost('a matrix names its values');
      const variants = lists.flatMap((one) => one ?? []);
      const keys = new Map(variants.flatMap((one) => Array.from(one.keys(), (key) => [key, key] as const)));
      if (variants.some((one) => one.values().some((text) => !/^[^\s,]+$/.test(text))))
        return lost('a value of a matrix has no blanks and commas');
      const written = writeVariants(suite, variants, keys);
      return 'problem' in written ? lost(written.problem) : kept();
    },
    rules: (value) => {
      const found = conditionOfRules(listOf(value), repository);
      const rules = found && rulesOf(found.condition);
      if (found?.isManual === true) suite.fields.manual = true;
      if (found && 'is' in found.condition && !found.condition.is) suite.fields.manual = true;
      else if (rules) suite.rules.push(...rules);
      else {
        suite.fields.manual = true;
        return lost('rules of a suite cannot say this, so it runs only by hand');
      }
      return kept();
    },
    only: (value) => limited(suite, ofRefs(value, repository), kept),
    except: (value) => limited(suite, negatedOrNone(ofRefs(value, repository)), kept),
    interruptible: (value) => {
      if (value === true)
        translation.toSet.add(
          'Set cancel_superseded of the project to running, so that a newer commit cancels older builds.',
        );
      return kept();
    },
    coverage: 'a build has no coverage',
    environment: 'there are no environments: a deploy strategy can run the suite',
    id_tokens: (value) => {
      const all = Object.entries(tableOf(value)).map(([variable, one]) => ({
        variable,
        audience: textsOf(tableOf(one).aud)[0] ?? '',
      }));
      return all.length === 0 ? kept() : lost('write id_tokens = [{ variable = "…", audience = "…" }]');
    },
    pages: 'there are no pages',
    release: 'there are no releases',
    secrets: 'set them as secret variables of the project',
  };
}

const negatedOrNone = (condition: Condition | undefined): Condition | undefined => condition && negated(condition);

function limited(suite: Suite, condition: Condition | undefined, done: () => Outcome): Outcome {
  const rules = condition && rulesOf(condition);
  if (!rules) {
    suite.fields.manual = true;
    return lost('rules of a suite cannot say this, so it runs only by hand');
  }
  suite.rules.push(...rules);
  return done();
}
