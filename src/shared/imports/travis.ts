import { most } from '../domain/bounds.ts';
import { allOf, anyOf, matching, negated, rulesOf, type Condition } from './conditions.ts';
import { finishSuite } from './finish.ts';
import { serviceImages, tools, type ToolName } from './images.ts';
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
import { realValues, writeVariants } from './matrix.ts';
import { nameOf } from './names.ts';
import { addCache, addService, addVariable } from './parts.ts';
import { inBash, quote } from './shell.ts';
import { byOccasion, type Occasion } from './triggers.ts';

const lost = (why: string): Outcome => ({ lost: why });

interface Language {
  tool?: ToolName;
  /** The key with the versions. */
  key?: string;
  install?: string;
  script?: string;
}

/** What Travis runs by itself for a language. */
const languages: Readonly<Record<string, Language>> = {
  node_js: {
    tool: 'node',
    key: 'node_js',
    install:
      'if [ -f yarn.lock ]; then yarn --frozen-lockfile; elif [ -f package-lock.json ]; then npm ci; else npm install; fi',
    script: 'npm test',
  },
  python: { tool: 'python', key: 'python', install: 'pip install -r requirements.txt' },
  go: {
    tool: 'go',
    key: 'go',
    install: 'go get -t -v ./...',
    script: 'if [ -f Makefile ]; then make; else go test -v ./...; fi',
  },
  java: {
    tool: 'java',
    key: 'jdk',
    install: 'if [ -f gradlew ]; then ./gradlew assemble; elif [ -f mvnw ]; then ./mvnw install -DskipTests=true; fi',
    script: 'if [ -f gradlew ]; then ./gradlew check; else ./mvnw test -B; fi',
  },
  ruby: { tool: 'ruby', key: 'rvm', install: 'bundle install --jobs=3 --retry=3', script: 'bundle exec rake' },
  php: { tool: 'php', key: 'php', script: 'phpunit' },
  rust: { tool: 'rust', key: 'rust', install: 'cargo build --verbose', script: 'cargo test --verbose' },
  perl: {
    tool: 'perl',
    key: 'perl',
    install: 'cpanm --quiet --installdeps --notest .',
    script: 'perl Makefile.PL && make test',
  },
  elixir: {
    tool: 'elixir',
    key: 'elixir',
    install: 'mix local.rebar --force\nmix local.hex --force\nmix deps.get',
    script: 'mix test',
  },
  haskell: {
    tool: 'haskell',
    key: 'ghc',
    install: 'cabal install --only-dependencies --enable-tests',
    script: 'cabal configure --enable-tests && cabal build && cabal test',
  },
  generic: {},
  minimal: {},
  shell: {},
  bash: {},
  sh: {},
  c: { script: './configure && make && make test' },
  cpp: { script: './configure && make && make test' },
};

/** Keys whose values make jobs. */
const phases = ['before_install', 'install', 'before_script', 'script'] as const;

const environmentHere: Readonly<Record<string, string>> = {
  TRAVIS_COMMIT: '$HEADRACE_COMMIT',
  TRAVIS_BRANCH: '${HEADRACE_TARGET_BRANCH:-$HEADRACE_BRANCH}',
  TRAVIS_TAG: '$([ "$HEADRACE_EVENT" != tag ] || printf %s "$HEADRACE_REF")',
  TRAVIS_PULL_REQUEST: '${HEADRACE_PULL_REQUEST:-false}',
  TRAVIS_EVENT_TYPE: '$HEADRACE_EVENT',
  TRAVIS_BUILD_DIR: '/build',
  TRAVIS_BUILD_ID: '$HEADRACE_BUILD_ID',
  TRAVIS_BUILD_NUMBER: '$HEADRACE_BUILD_ID',
  TRAVIS_JOB_ID: '$HEADRACE_BUILD_ID',
  TRAVIS_JOB_NUMBER: '$HEADRACE_BUILD_ID',
  TRAVIS_OS_NAME: 'linux',
  TRAVIS: 'true',
};

/** The versions of a language, other variables, and what an entry of `jobs.include` sets. */
interface TravisJob {
  own: Table;
  path: Path;
  version: string | undefined;
  env: string;
  mayFail: boolean;
}

export function fromTravis(source: Source): { translation: Translation; tally: Tally } {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const file = tableOf(source.value);
  const language = textOf(file.language ?? 'ruby').toLowerCase();
  const about = Object.hasOwn(languages, language) ? languages[language] : undefined;
  const occasions: Occasion[] = [];
  readKeys(file, topKeys(about, occasions), { tally, target: translation, path: [] });
  if (!about) {
    tally.lose(translation, ['language'], language, 'there is no image for it');
    return { translation, tally };
  }
  tally.keep(); // the language
  const jobs = jobsOf(file, about, tally, translation);
  /** Jobs that differ in nothing but version and environment are one suite. */
  const groups = Map.groupBy(jobs, ({ own }) =>
    JSON.stringify(
      Object.entries(own).filter(([key]) => !['env', about.key, 'name', 'dist', 'os', 'sudo', 'arch'].includes(key)),
    ),
  );
  const stages = [...new Set(jobs.map(({ own }) => stageOf(own)))];
  const suites: { stage: string; suite: Suite }[] = [];
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const stage = stageOf(first.own);
    const title = textsOf(first.own.name)[0] ?? (stages.length > 1 ? stage : 'test');
    const taken = new Set(suites.map(({ suite }) => suite.name));
    const name = taken.has(nameOf(title)) ? `${nameOf(title)} ${suites.length + 1}` : nameOf(title);
    const suite = suiteOf({ name, file, about, group, first, tally, translation });
    if (finishSuite(suite)) suites.push({ stage, suite });
    else tally.lose(translation, first.path, undefined, 'it has nothing to run');
  }
  for (const { stage, suite } of suites) {
    const before = stages[stages.indexOf(stage) - 1];
    if (before !== undefined) suite.needs = suites.filter((one) => one.stage === before).map((one) => one.suite.name);
    translation.suites.push(suite);
  }
  return { translation: occasions.length === 0 ? translation : byOccasion(translation, occasions), tally };
}

const stageOf = (own: Table): string => textsOf(isTable(own.stage) ? own.stage.name : own.stage)[0] ?? 'test';

const isLinux = (os: string): boolean => os.startsWith('linux');

function jobsOf(file: Table, { key = '-' }: Language, tally: Tally, translation: Translation): TravisJob[] {
  const section = file.jobs === undefined ? 'matrix' : 'jobs';
  const table: Table = isTable(file[section]) ? file[section] : { include: file[section] };
  const env = isTable(file.env) ? listOf(file.env.jobs ?? file.env.matrix) : listOf(file.env);
  const isList = Array.isArray(file.env) || isTable(file.env);
  const rows = (
    isTable(file.env) && file.env.jobs === undefined && file.env.matrix === undefined && !('global' in file.env)
      ? [file.env]
      : env
  ).map(textOfEnv);
  const versions = textsOf(file[key]);
  const failures = listOf(table.allow_failures).map(tableOf);
  const excluded = listOf(table.exclude).map(tableOf);
  const fits = (one: Table, version: string | undefined, variables: string): boolean =>
    Object.entries(one).every(([name, value]) =>
      name === key
        ? textsOf(value)[0] === version
        : name === 'env'
          ? textOfEnv(value) === variables
          : name === 'os'
            ? isLinux(String(value))
            : false,
    ) && Object.keys(one).length > 0;
  for (const os of textsOf(file.os))
    if (isLinux(os)) tally.keep();
    else tally.lose(translation, ['os'], os, 'runners are on Linux, so its jobs are not built');
  const hasLinux = file.os === undefined || textsOf(file.os).some(isLinux);
  if (Math.max(versions.length, 1) * Math.max(rows.length, 1) > most.combinations) {
    tally.lose(translation, ['env'], undefined, `these are more than ${most.combinations} jobs`);
    return [];
  }
  const jobs: TravisJob[] = [];
  const add = (own: Table, path: Path, version: string | undefined, variables: string): void => {
    jobs.push({ own, path, version, env: variables, mayFail: failures.some((one) => fits(one, version, variables)) });
  };
  const included = listOf(table.include).map(tableOf);
  const isExpanded = versions.length > 1 || rows.length > 1 || included.length === 0 || file.script !== undefined;
  if (
    hasLinux &&
    (isExpanded ||
      (versions.length === 1 && included.every((one) => one[key] === undefined && one.stage !== undefined)))
  )
    for (const version of versions.length > 0 ? versions : [undefined])
      for (const variables of rows.length > 0 ? rows : [''])
        if (!excluded.some((one) => fits(one, version, variables)))
          add({}, isList ? [key] : ['script'], version, variables);
  let stage: unknown;
  for (const [at, one] of included.entries()) {
    stage = one.stage ?? stage;
    const os = textsOf(one.os)[0] ?? 'linux';
    const path = [section, 'include', at];
    if (!isLinux(os)) tally.lose(translation, [...path, 'os'], os, 'runners are on Linux, so this job is not built');
    else
      add(
        { ...one, ...(stage !== undefined && { stage }) },
        path,
        textsOf(one[key])[0] ?? versions[0],
        textOfEnv(one.env) || (one.env === undefined ? (rows[0] ?? '') : ''),
      );
  }
  tally.keep(Math.max(1, jobs.length));
  if (failures.length > 0) tally.keep();
  for (const one of failures)
    if (!jobs.some((job) => fits(one, job.version, job.env)) && isLinux(textOf(one.os ?? 'linux')))
      tally.lose(translation, [section, 'allow_failures'], JSON.stringify(one), 'it names no job');
  return jobs;
}

/** `A=1 B="x y"`, also from a table. Encrypted entries count elsewhere. */
function textOfEnv(given: unknown): string {
  if (Array.isArray(given))
    return given
      .map(textOfEnv)
      .filter((one) => one !== '')
      .join(' ');
  if (isTable(given))
    return Object.entries(given)
      .flatMap(([name, value]) => (name === 'secure' || !isScalar(value) ? [] : [`${name}=${quote(String(value))}`]))
      .join(' ');
  return isScalar(given) ? String(given) : '';
}

function variablesIn(text: string): [string, string][] {
  const form = /([A-Za-z_]\w*)=((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^\s"'\\])*)/g;
  return Array.from(text.matchAll(form), ([, name = '', value = '']) => [
    name,
    value.replaceAll(
      /"((?:\\.|[^"\\])*)"|'([^']*)'/g,
      (_, double?: string, single?: string) => double?.replaceAll(/\\(["\\$`])/g, '$1') ?? single ?? '',
    ),
  ]);
}

interface About {
  name: string;
  file: Table;
  about: Language;
  group: readonly TravisJob[];
  first: TravisJob;
  tally: Tally;
  translation: Translation;
}

function suiteOf({ name, file, about, group, first, tally, translation }: About): Suite {
  const suite = emptySuite(name);
  const { own } = first;
  const { tool, key = '-' } = about;
  const variable = tool === undefined ? 'VERSION' : `${tool.toUpperCase()}_VERSION`;
  const variants = group.map(({ version, env, mayFail }) => {
    const known = version === undefined && tool === undefined ? undefined : version;
    const image = tool === undefined ? '' : tools[tool].image(javaName(known ?? ''));
    return { version: known, image, env: new Map(variablesIn(env)), mayFail };
  });
  const missing = variants.filter(({ image }) => image === undefined);
  for (const { version } of missing) tally.lose(suite, [key], version, 'there is no image of this version');
  const built = variants.filter(({ image }) => image !== undefined);
  const images = [...new Set(built.map(({ image }) => image ?? ''))];
  const tags = built.map(({ image }) => (image ?? '').slice((image ?? '').lastIndexOf(':') + 1));
  const repositories = new Set(images.map((image) => image.slice(0, image.lastIndexOf(':'))));
  const [repository = ''] = repositories;
  const rows = built.map(({ image, env }, at) => {
    const row = new Map<string, string>();
    if (images.length > 1) row.set(variable, repositories.size === 1 ? (tags[at] ?? '') : (image ?? ''));
    for (const [one, value] of env) row.set(one, value);
    return row;
  });
  if (images.length > 1) suite.fields.image = repositories.size === 1 ? `${repository}:$${variable}` : `$${variable}`;
  else if (images[0]) suite.fields.image = images[0];
  const all = new Map(rows.flatMap((row) => Array.from(row.keys(), (one) => [one, one] as const)));
  const differing = new Map([...all].filter(([one]) => new Set(rows.map((row) => row.get(one))).size > 1));
  for (const [one, value] of rows[0] ?? []) if (!differing.has(one)) addVariable(suite, { name: one, content: value });
  const written = writeVariants(suite, rows, differing);
  if ('problem' in written) tally.lose(suite, first.path, undefined, written.problem);
  const real = 'problem' in written ? '' : realValues(written.values, differing, quote);
  const lines = 'problem' in written ? [] : written.lines;
  const failing = lines.filter((line, at) => line !== '' && built[at]?.mayFail);
  if (built.length > 0 && built.every(({ mayFail }) => mayFail)) suite.fields.allow_failure = true;
  else if (failing.length > 0) suite.fields.matrix_allow_failure = [...new Set(failing)];
  readGlobals(file, suite, tally, translation);
  const merged: Table = { ...file, ...own };
  addCache(suite, cachePathsOf(merged.cache));
  readKeys(own, jobKeys(key), { tally, target: suite, path: first.path });
  for (const service of listOf(merged.services).flatMap(textsOf)) addKnownService(suite, service);
  const packages = listOf(
    tableOf(tableOf(merged.addons).apt).packages ??
      (isTable(tableOf(merged.addons).apt) ? undefined : tableOf(merged.addons).apt),
  ).flatMap(textsOf);
  const isOnScreen = listOf(merged.services).flatMap(textsOf).includes('xvfb');
  if (isOnScreen) packages.push('xvfb');
  const apt = packages.length === 0 ? [] : [`apt-get update\napt-get install -y ${packages.map(quote).join(' ')}`];
  const usual: Readonly<Record<string, string | undefined>> = { install: about.install, script: about.script };
  const parts = phases.map((phase) => {
    const text = merged[phase];
    if (text === false || text === 'true' || text === 'skip' || text === true) return '';
    return text === undefined ? (usual[phase] ?? '') : textsOf(text).join('\n');
  });
  const screen = isOnScreen ? ['Xvfb :99 -screen 0 1024x768x24 > /dev/null 2>&1 &\nexport DISPLAY=:99'] : [];
  const script = [...apt, ...screen, ...parts].filter((part) => part !== '').join('\n');
  const version = tool === undefined ? '' : `TRAVIS_${tool.toUpperCase()}_VERSION`;
  const versionLine = versionOf(
    version,
    images.length > 1 ? variable : undefined,
    built.map(({ version: one }, at) => [tags[at] ?? '', one ?? '']),
  );
  const add = (step: string, text: string, when?: 'failed' | 'always'): void => {
    if (text === '') return;
    const exports = Object.entries(environmentHere)
      .filter(([one]) => new RegExp(`\\b${one}\\b`).test(text))
      .map(([one, value]) => `export ${one}="${value}"`);
    if (version !== '' && text.includes(version)) exports.unshift(versionLine);
    if (/\bnvm (?:install|use)\b/.test(text)) exports.push(withNvm);
    for (const one of new Set(Array.from(text.matchAll(/\$\{?(TRAVIS_\w+)/g), ([, found = '']) => found)))
      if (one !== version && !Object.hasOwn(environmentHere, one))
        tally.lose(suite, ['script'], `$${one}`, 'a build has no such variable');
    suite.steps.push({
      name: step,
      command: [...(real === '' ? [] : [real.trimEnd()]), ...exports, inBash(text)].join('\n'),
      ...(when && { when }),
      notes: [],
    });
  };
  add('script', script);
  add('after_success', textsOf(merged.after_success).join('\n'));
  add('after_failure', textsOf(merged.after_failure).join('\n'), 'failed');
  add('after_script', textsOf(merged.after_script).join('\n'), 'always');
  return suite;
}

/** Travis has it, images have not. */
const withNvm = `export NVM_DIR="$HOME/.nvm"
[ -s "$NVM_DIR/nvm.sh" ] || curl -fsSL https://raw.githubusercontent.com/nvm-sh/nvm/v0.40.3/install.sh | bash
. "$NVM_DIR/nvm.sh" --no-use`;

/** The variable with the version as the file has it: the tag of the image may have another name. */
function versionOf(name: string, variable: string | undefined, known: readonly (readonly [string, string])[]): string {
  if (variable === undefined) return `export ${name}=${quote(known[0]?.[1] ?? '')}`;
  const other = new Map(known.filter(([tag, version]) => tag !== version));
  const cases = Array.from(other, ([tag, version]) => `${quote(tag)}) export ${name}=${quote(version)} ;;`);
  return `case "$${variable}" in ${[...cases, `*) export ${name}="$${variable}" ;;`].join(' ')} esac`;
}

const javaName = (version: string): string => version.replace(/^(?:openjdk|oraclejdk)-?/, '');

function readGlobals(file: Table, suite: Suite, tally: Tally, translation: Translation): void {
  const isFirst = translation.suites.length === 0;
  const global = isTable(file.env) ? listOf(file.env.global) : [];
  for (const [name, content] of global.flatMap((one) => variablesIn(textOfEnv(one)))) {
    addVariable(suite, { name, content });
    if (isFirst) tally.keep();
  }
}

function addKnownService(suite: Suite, name: string): void {
  const known = Object.hasOwn(serviceImages, name) ? serviceImages[name] : undefined;
  if (!known) return;
  const variables = Object.entries(known.variables ?? {}).map(([one, content]) => ({ name: one, content }));
  addService(suite, { name: name.replace('-server', ''), image: known.image, variables, notes: [] });
}

function servicesOf(value: unknown): Outcome {
  const missing = textsOf(value).filter((one) => !Object.hasOwn(serviceImages, one) && one !== 'xvfb');
  return missing.length === 0 ? kept() : lost(`there is no image for ${missing.join(', ')}`);
}

function addonsOf(value: unknown): Outcome {
  const others = Object.entries(tableOf(value)).filter(
    ([name, one]) => name !== 'apt' || (isTable(one) && one.sources !== undefined),
  );
  return others.length === 0
    ? kept()
    : lost(
        `install this in the commands: ${others.map(([name]) => (name === 'apt' ? 'apt.sources' : name)).join(', ')}`,
      );
}

/** Of a push its branch, of a pull request the branch that it is for. */
function ofBranches({ only: yes, except: no }: Table, subject: 'branch' | 'tag' | 'target'): Condition {
  const one = (ref: string): Condition => {
    const expression = /^\/(.*)\/$/.exec(ref);
    return expression ? { subject, pattern: expression[1] ?? '' } : matching(subject, [ref]);
  };
  return allOf([
    ...(yes === undefined ? [] : [anyOf(textsOf(yes).map(one))]),
    ...(no === undefined ? [] : [negated(anyOf(textsOf(no).map(one)))]),
  ]);
}

function topKeys(about: Language | undefined, occasions: Occasion[]): Keys<Translation> {
  const versions = about?.key === undefined ? {} : { [about.key]: elsewhere };
  return {
    ...Object.fromEntries(['language', 'os', 'matrix', 'jobs', 'stages'].map((name) => [name, elsewhere])),
    ...Object.fromEntries([...phases, 'after_success', 'after_failure', 'after_script'].map((name) => [name, kept])),
    ...Object.fromEntries(
      ['sudo', 'dist', 'group', 'version', 'osx_image', 'arch', 'compiler'].map((name) => [name, kept]),
    ),
    ...versions,
    env: (value, { tally, target, path }) => {
      const secure = JSON.stringify(value ?? '').split('"secure":').length - 1;
      for (let count = 0; count < secure; count += 1)
        tally.lose(
          target,
          [...path, 'secure'],
          undefined,
          'only Travis can read it: set the secret as a variable of the project',
        );
      return secure > 0 && textOfEnv(isTable(value) ? Object.values(value) : value) === '' ? elsewhere() : kept();
    },
    cache: cacheOf,
    branches: (value) => {
      const found = (['branch', 'tag', 'target'] as const).map((subject) => ofBranches(tableOf(value), subject));
      const [branch, tag, target] = found;
      if (!found.every((one) => rulesOf(one))) return lost('rules cannot say this');
      occasions.push(
        { events: ['push', 'poll'], condition: branch },
        { events: ['tag'], condition: tag },
        { events: ['pull_request'], condition: target },
      );
      return kept();
    },
    services: servicesOf,
    addons: addonsOf,
    git: kept,
    notifications: (value, { target }) => {
      const { email, on_success: _success, on_failure: _failure, ...others } = tableOf(value);
      const told = Object.entries(others).filter(([, one]) => one !== false);
      if (email !== undefined && email !== false)
        target.toSet.add(
          'Add a notification to the project: e-mail to those who committed, or to those that notifications names.',
        );
      return told.length === 0
        ? kept()
        : lost(`who is told is a setting of the project: ${told.map(([name]) => name).join(', ')}`);
    },
    deploy: 'write a suite that deploys, with manual = true or rules',
    before_deploy: 'write a suite that deploys',
    after_deploy: 'write a suite that deploys',
    if: 'conditions of Travis are not read: write a rule',
    conditions: kept,
    before_cache: 'a cache is saved as it is',
  };
}

const caches: Readonly<Record<string, readonly string[]>> = {
  npm: ['~/.npm'],
  yarn: ['~/.cache/yarn'],
  pip: ['~/.cache/pip'],
  bundler: ['vendor/bundle'],
  cargo: ['target'],
  ccache: ['~/.ccache'],
  packages: [],
};

/** The names of managers, and directories. */
function cachePathsOf(given: unknown): string[] {
  if (Array.isArray(given)) return given.flatMap(cachePathsOf);
  const { directories, ...others } = isTable(given) ? given : { directories: [], [String(given)]: true };
  const named = Object.entries(others).flatMap(([name, one]) =>
    one === true && Object.hasOwn(caches, name) ? (caches[name] ?? []) : [],
  );
  return [...named, ...textsOf(directories)];
}

function cacheOf(value: unknown): Outcome {
  const problem = addCache(emptySuite(''), cachePathsOf(value));
  return problem === undefined ? kept() : lost(problem);
}

function jobKeys(key: string): Keys<Suite> {
  return {
    ...Object.fromEntries(
      [
        ...phases,
        'after_success',
        'after_failure',
        'after_script',
        'name',
        'stage',
        'os',
        'env',
        'sudo',
        'dist',
        'arch',
        key,
      ].map((name) => [name, elsewhere]),
    ),
    language: 'a suite has the language of the file',
    services: servicesOf,
    addons: addonsOf,
    cache: cacheOf,
    if: 'conditions of Travis are not read: write a rule',
    deploy: 'write a suite that deploys, with manual = true or rules',
  };
}
