import { most } from '../domain/bounds.ts';
import { rulesOf } from './conditions.ts';
import { finishSuite } from './finish.ts';
import { conditionOf, readCondition, textIn, type Job } from './github-values.ts';
import { exportsOf, outputMark, outputsOf, readStep, runDefaults, stripStatus, withOutputs } from './github-steps.ts';
import { readService } from './github-services.ts';
import { triggersOf } from './github-triggers.ts';
import { combined, flattened, realValues, variableOf, writeVariants, type Variant } from './matrix.ts';
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
  type Keys,
  type Path,
  type Read,
  type Source,
  type Suite,
  type Table,
  type Translation,
} from './model.ts';
import { nameOf } from './names.ts';
import { quote } from './shell.ts';
import { byOccasion } from './triggers.ts';

export function fromGithub(source: Source): Read {
  const [translation, tally] = [emptyTranslation(), new Tally(source)];
  const workflow = tableOf(source.value);
  const occasions = triggersOf(workflow.on, translation, tally);
  const keys: Keys<Translation> = {
    ...each('on jobs env concurrency', elsewhere),
    ...each('defaults name permissions', kept),
    'run-name': 'a build request has no name',
  };
  readKeys(workflow, keys, { tally, target: translation, path: [] });
  if (translation.parameters.length > most.parameters) translation.parameters.length = most.parameters;
  const group = concurrencyOf(workflow.concurrency, translation, tally);
  const jobs = tableOf(workflow.jobs);
  const uploads: Job['uploads'] = new Map();
  for (const [id, value] of Object.entries(jobs)) {
    const suite = jobOf(id, { value, workflow, source, tally, translation, uploads });
    if (suite && group !== undefined) suite.fields.concurrency_group ??= group;
    if (suite) translation.suites.push(suite);
  }
  return { translation: byOccasion(translation, occasions), tally };
}

/** The group, if it is the same for all. What a newer commit cancels is a setting of the project. */
function concurrencyOf(given: unknown, translation: Translation, tally: Tally): string | undefined {
  if (given === undefined) return undefined;
  const table = tableOf(given);
  const group = isScalar(given) ? String(given) : (firstOf(table.group) ?? '');
  const { 'cancel-in-progress': cancels = false } = table;
  if (cancels !== false)
    translation.toSet.add(
      'Set cancel_superseded of the project to running, so that a newer commit cancels older builds.',
    );
  tally.keep();
  return group.includes('${{') || group === '' || cancels !== false ? undefined : nameOf(group);
}

interface About extends Read {
  value: unknown;
  workflow: Table;
  source: Source;
  uploads: Job['uploads'];
}

function jobOf(id: string, { value, workflow, source, tally, translation, uploads }: About): Suite | undefined {
  const path: Path = ['jobs', id];
  const suite = emptySuite(nameOf(id));
  const table = tableOf(value);
  const drop = (why: string): undefined => {
    translation.notes.push(
      ...suite.notes,
      ...suite.steps.flatMap(({ notes }) => notes).filter((note) => !note.startsWith(outputMark)),
    );
    tally.lose(translation, path, undefined, why);
    return undefined;
  };
  if (table.uses !== undefined) {
    tally.lose(
      translation,
      [...path, 'uses'],
      table.uses,
      'there are no workflows of other repositories: write its jobs here',
    );
    return undefined;
  }
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
  if (machine === undefined)
    return drop(`it runs on ${textsOf(table['runs-on']).join(', ')}, and runners are on Linux`);
  const environment = [
    ...exportsOf(job, workflow.env, ['env'], false),
    ...exportsOf(job, table.env, [...path, 'env'], true),
  ];
  readKeys(table, jobKeys(job, table.needs !== undefined), { tally, target: suite, path });
  tally.keep(); // the job
  const defaults = { ...runDefaults(workflow), ...runDefaults(table) };
  for (const [at, step] of steps.entries())
    readStep(job, step, { path: [...path, 'steps', at], environment, defaults, at });
  for (const step of suite.steps) {
    const own = [...job.outputs].find(([name]) => step.notes.includes(outputsOf(name)));
    step.notes = step.notes.filter((note) => !note.startsWith(outputMark));
    if (own) step.command = withOutputs(step.command, ...own);
  }
  if (suite.fields.matrix_allow_failure === undefined) delete suite.fields.matrix_allow_failure;
  const keys = new Map(
    [...job.names].filter(([key]) => job.used.has(key) || new Set(job.variants.map((one) => one.get(key))).size > 1),
  );
  const written = writeVariants(suite, job.variants, keys);
  if ('problem' in written) return drop(written.problem);
  const real = realValues(written.values, job.names, quote);
  if (real !== '') for (const step of suite.steps) if (step.command !== '') step.command = `${real}${step.command}`;
  return finishSuite(suite, machine) ? suite : drop('nothing of it is left that could run');
}

/** Returns why there can be none. */
function readMatrix(job: Job, strategy: Table): string | undefined {
  const { tally, suite, path } = job;
  const at = [...path, 'strategy'];
  const keys: Keys<Suite> = {
    matrix: elsewhere,
    'fail-fast': (value) => (value === true ? lost('the other variants are built to their ends') : kept()),
    'max-parallel': (value) =>
      value === 1
        ? ((suite.fields.concurrency_group = suite.name), kept())
        : lost('how many builds run at once is a setting of the runners'),
  };
  readKeys(strategy, keys, { tally, target: suite, path: at });
  const { matrix } = strategy;
  if (matrix === undefined) return undefined;
  if (!isTable(matrix)) return 'its matrix is computed while the workflow runs';
  const { include, exclude, ...axes } = matrix;
  if (
    Object.values(axes).some((axis) => !Array.isArray(axis)) ||
    [include, exclude].some((one) => typeof one === 'string')
  )
    return 'its matrix is computed while the workflow runs';
  const lists = Object.entries(axes).map(([name, values]) => listOf(values).map((one) => flattened(one, name)));
  const all = lists.length === 0 ? [] : combined(lists);
  if (!all) return `its matrix has more than ${most.combinations} combinations`;
  const excluded = listOf(exclude).map((one) => flatVariant(one));
  const variants = all.filter(
    (one) => !excluded.some((other) => other.entries().every(([key, value]) => one.get(key) === value)),
  );
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
    const [here, away] = [
      job.variants.filter((one) => isLinux(label(one))),
      job.variants.filter((one) => !isLinux(label(one))),
    ];
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
  if (tags.length > 0)
    suite.fields.tags = tags.map((one) => one.replaceAll(/[^A-Za-z0-9._:-]/g, '-')).slice(0, most.tags);
  return labels.find((one) => one.startsWith('ubuntu')) ?? 'ubuntu-latest';
}

const isLinux = (label: string): boolean => label !== '' && !/^(?:windows|macos|mac-os|osx)/i.test(label);

function jobKeys(job: Job, hasNeeds: boolean): Keys<Suite> {
  const { suite, translation, tally } = job;
  return {
    ...each('steps env strategy runs-on', elsewhere),
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
      return hasNeeds && whole?.status === 'always'
        ? lost('a suite does not run after a failure of what it needs')
        : kept();
    },
    'timeout-minutes': (value) => {
      if (typeof value !== 'number' || !(value > 0)) return lost('this is no number of minutes');
      suite.fields.timeout = Math.min(Math.ceil(value * 60), 2_592_000);
      return kept();
    },
    'continue-on-error': (value) => {
      if (typeof value === 'boolean')
        return ((suite.fields.allow_failure = value), value || delete suite.fields.allow_failure, kept());
      const [, key] = /^\$\{\{\s*matrix\.([\w.-]+)\s*(?:==\s*true\s*|\|\|\s*false\s*)?\}\}$/.exec(String(value)) ?? [];
      const name = key === undefined ? undefined : job.names.get(key);
      if (key === undefined || name === undefined)
        return lost('whether it may fail is decided while the workflow runs');
      if (job.variants.some((one) => one.get(key) === 'true')) {
        job.used.add(key);
        suite.fields.matrix_allow_failure = [`${name}=true`];
        for (const one of job.variants) if (!one.has(key)) one.set(key, 'false');
      }
      return kept();
    },
    container: (value, { path }) => {
      const table: Table = isTable(value) ? value : { image: value };
      const image = textIn(job, firstOf(table.image) ?? '');
      if (!image) return lost('its image is not known here');
      suite.fields.image = 'text' in image ? image.text : image.shell;
      job.isContainer = true;
      if (typeof table.options === 'string' && /--user(?:=| )(?:root|0)\b/.test(table.options))
        suite.fields.root = true;
      exportsOf(job, table.env, [...path, 'env'], true);
      const { image: _image, env: _env, options, ...others } = table;
      const wrong = [
        ...Object.keys(others),
        ...(options === undefined || suite.fields.root === true ? [] : ['options']),
      ];
      if (wrong.length > 0) tally.lose(suite, path, undefined, `a container here has no ${wrong.join(', ')}`);
      return kept();
    },
    services: (value, { path }) => {
      for (const [name, given] of Object.entries(tableOf(value)))
        readService(job, name, tableOf(given), [...path, name]);
      return elsewhere();
    },
    concurrency: (value) => {
      const group = concurrencyOf(value, translation, tally);
      if (group !== undefined) suite.fields.concurrency_group = group;
      return elsewhere();
    },
    environment: 'who must approve is not in the file: write approval = true, and limit its variables to refs',
    outputs: (value) =>
      Object.keys(tableOf(value)).length === 0 ? kept() : lost('a suite hands files on, and no variables'),
  };
}
