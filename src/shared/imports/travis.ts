import { allOf, anyOf, matching, negated, rulesOf, type Condition } from './conditions.ts';
import { finishSuite } from './finish.ts';
import { serviceImages, tools } from './images.ts';
import {
  each,
  elsewhere,
  emptySuite,
  emptyTranslation,
  firstOf,
  isTable,
  kept,
  listOf,
  lost,
  readKeys,
  tableOf,
  Tally,
  textOf,
  textsOf,
  unless,
  type Keys,
  type Read,
  type Source,
  type Suite,
  type Table,
  type Translation,
} from './model.ts';
import { realValues, writeVariants } from './matrix.ts';
import { nameOf } from './names.ts';
import { addCache, addService, addVariable } from './parts.ts';
import { inBash, quote } from './shell.ts';
import { exportsFor, ifTag, type Here } from './shell-variables.ts';
import { jobsOf, textOfEnv, variablesIn, type TravisJob } from './travis-jobs.ts';
import { languages, type Language } from './travis-languages.ts';
import { byOccasion, type Occasion } from './triggers.ts';

/** They are one script. */
const phases = ['before_install', 'install', 'before_script', 'script'] as const;
const scripts = `${phases.join(' ')} after_success after_failure after_script`;

const environmentHere: Here = {
  TRAVIS_COMMIT: '$HEADRACE_COMMIT',
  TRAVIS_BRANCH: '${HEADRACE_TARGET_BRANCH:-$HEADRACE_BRANCH}',
  TRAVIS_TAG: ifTag,
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
/** What a shell reads, and names that a program reads in another way. */
const environmentForm = new RegExp(
  String.raw`(?:\$\{?(?=TRAVIS_)|\b(?=(?:${Object.keys(environmentHere).join('|')})\b))(TRAVIS\w*)`,
  'g',
);

export function fromTravis(source: Source): Read {
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
  const jobs = jobsOf(file, about, { tally, translation });
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
    const title = firstOf(first.own.name) ?? (stages.length > 1 ? stage : 'test');
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

const stageOf = (own: Table): string => firstOf(isTable(own.stage) ? own.stage.name : own.stage) ?? 'test';

interface About extends Read {
  name: string;
  file: Table;
  about: Language;
  group: readonly TravisJob[];
  first: TravisJob;
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
    const reading = { tally, target: suite, path: ['script'], own: new Set([version]) };
    const exports = exportsFor(text, environmentHere, environmentForm, reading);
    if (version !== '' && text.includes(version)) exports.unshift(versionLine);
    if (/\bnvm (?:install|use)\b/.test(text)) exports.push(withNvm);
    const command = [...(real === '' ? [] : [real.trimEnd()]), ...exports, inBash(text)].join('\n');
    suite.steps.push({ name: step, command, ...(when && { when }), notes: [] });
  };
  add('script', script);
  for (const [key, when] of [['after_success'], ['after_failure', 'failed'], ['after_script', 'always']] as const)
    add(key, textsOf(merged[key]).join('\n'), when);
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
    ...each('language os matrix jobs stages', elsewhere),
    ...each(`${scripts} sudo dist group version osx_image arch compiler git conditions`, kept),
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
    ...ofBoth,
    ...each('before_deploy after_deploy', 'write a suite that deploys'),
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

/** Keys of the file and of a job. */
const ofBoth: Keys<Suite | Translation> = {
  services: (value) => {
    const missing = textsOf(value).filter((one) => !Object.hasOwn(serviceImages, one) && one !== 'xvfb');
    return missing.length === 0 ? kept() : lost(`there is no image for ${missing.join(', ')}`);
  },
  addons: (value) => {
    const others = Object.entries(tableOf(value)).flatMap(([name, one]) => {
      if (name !== 'apt') return [name];
      return isTable(one) && one.sources !== undefined ? ['apt.sources'] : [];
    });
    return others.length === 0 ? kept() : lost(`install this in the commands: ${others.join(', ')}`);
  },
  cache: (value) => unless(addCache(emptySuite(''), cachePathsOf(value))),
  if: 'conditions of Travis are not read: write a rule',
  deploy: 'write a suite that deploys, with manual = true or rules',
};

const jobKeys = (key: string): Keys<Suite> => ({
  ...each(`${scripts} name stage os env sudo dist arch ${key}`, elsewhere),
  language: 'a suite has the language of the file',
  ...ofBoth,
});
