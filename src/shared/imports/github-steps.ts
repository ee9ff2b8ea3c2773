import { useAction, type Done } from './actions.ts';
import { testOf } from './conditions.ts';
import {
  conditionOf,
  environmentHere,
  outputVariable,
  readCondition,
  scriptIn,
  textIn,
  wordOf,
  type Job,
} from './github-values.ts';
import { firstOf, isScalar, tableOf, textOf, type Path, type Table } from './model.ts';
import { nameOf } from './names.ts';
import { addVariable } from './parts.ts';
import { inBash, only, quote } from './shell.ts';

/** Variables of the suite, and a line for each step for those that are not the same in all variants. */
export function exportsOf(job: Job, given: unknown, path: Path, isOwn: boolean): string[] {
  return Object.entries(tableOf(given)).flatMap(([name, value]) => {
    const at = [...path, name];
    const lose = (why: string): [] => (
      isOwn || !job.translation.suites.length ? job.tally.lose(job.suite, at, value, why) : undefined,
      []
    );
    const keep = (): void => (isOwn || job.translation.suites.length === 0 ? job.tally.keep() : undefined);
    const [, own] = /^\s*\$\{\{\s*(?:secrets|vars)\.(\w+)\s*\}\}\s*$/.exec(String(value)) ?? [];
    const resolved = textIn(job, isScalar(value) ? String(value) : '');
    if (!resolved) return lose('its value is not known here');
    if (name === 'CI' || own === name) return (keep(), []);
    if ('text' in resolved) {
      const problem = addVariable(job.suite, { name, content: resolved.text });
      if (problem !== undefined) return lose(problem);
      return (keep(), []);
    }
    if (!/^[A-Za-z_]\w*$/.test(name)) return lose('this is no name of a variable');
    keep();
    return [`export ${name}=${wordOf(resolved)}`];
  });
}

export const outputMark = 'outputs of ';
export const outputsOf = (id: string): string => `${outputMark}${id}`;

/** What the step writes to `$GITHUB_OUTPUT` becomes variables of the later steps. */
export function withOutputs(command: string, id: string, outputs: ReadonlySet<string>): string {
  const lines = Array.from(
    outputs,
    (output) => `sed -n 's/^${output}=/${outputVariable(id, output)}=/p' "$GITHUB_OUTPUT" >> "$HEADRACE_ENV"`,
  );
  return `${command}\n${lines.join('\n')}`;
}

export function runDefaults({ defaults }: Table): Table {
  return tableOf(tableOf(defaults).run);
}

type Expression = NonNullable<ReturnType<typeof readCondition>>;
type Status = 'passed' | 'failed' | 'always';

/** `always() && …` and the like. The rest is a condition without these. */
export function stripStatus(expression: Expression): { status: Status; rest: Expression } | undefined {
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

const knownKeys = 'name id if run uses with env shell working-directory continue-on-error timeout-minutes'.split(' ');

export function readStep(job: Job, step: Table, { path, environment, defaults, at }: StepPlace): void {
  const { suite, tally } = job;
  const place = { name: '', command: '', notes: [] as string[] };
  const key = step.uses === undefined ? 'run' : 'uses';
  const drop = (why: string): void => {
    tally.lose(place, [...path, key], step[key] === undefined ? undefined : textOf(step[key]).split('\n', 1)[0], why);
    suite.steps.push(place);
  };
  const expression = step.if === undefined ? { value: true } : readCondition(step.if);
  const split = expression && stripStatus(expression);
  const condition = split && conditionOf(job, split.rest);
  if (!condition)
    return drop(`its condition cannot be said here: ${String(step.if).replaceAll(/\s+/g, ' ').slice(0, 120)}`);
  if ('is' in condition && !condition.is) return tally.keep(); // never on Linux
  const test = 'is' in condition ? undefined : testOf(condition);
  if (test === undefined && !('is' in condition))
    return drop(`a step does not know this: ${String(step.if).slice(0, 120)}`);
  const done = step.uses === undefined ? runOf(job, step, defaults) : usesOf(job, step);
  if ('lost' in done) return drop(done.lost);
  tally.keep();
  const wrong = Object.keys(step).filter((name) => !knownKeys.includes(name));
  for (const name of wrong) tally.lose(place, [...path, name], step[name], 'this key is not known here');
  const exported = exportsForStep(job, step, path, place.notes);
  const { command } = done;
  if (command === undefined || command.trim() === '') {
    if (place.notes.length > 0) suite.steps.push(place);
    return;
  }
  const script = [
    ...(isPlain(done) ? [] : [...environment, ...exported]),
    ...(step.uses === undefined ? helpersOf(command) : []),
    command,
  ].join('\n');
  const limit =
    typeof step['timeout-minutes'] === 'number' ? `timeout ${Math.ceil(step['timeout-minutes'] * 60)} ` : '';
  const mayFail =
    step['continue-on-error'] === true ||
    (typeof step['continue-on-error'] === 'string' && /true/.test(step['continue-on-error']));
  const bounded =
    limit === '' && !mayFail
      ? script
      : `${limit}sh -e -c ${quote(script)}${mayFail ? " || echo 'This step failed, as it may.'" : ''}`;
  const status = split?.status ?? 'passed';
  const title = typeof step.name === 'string' ? step.name.replaceAll(/\$\{\{\s*([^}]*?)\s*\}\}/g, '$1') : undefined;
  suite.steps.push({
    name: nameOf(
      title ?? (step.uses === undefined ? (command.split('\n', 1)[0] ?? '') : textOf(step.uses)) ?? `step ${at + 1}`,
    ),
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
  if (script === undefined)
    return { lost: `its value is not known here: ${/\$\{\{[^}]*\}\}/.exec(step.run)?.[0] ?? ''}` };
  const unknown = /\bGITHUB_(?!ENV\b|PATH\b|OUTPUT\b|STEP_SUMMARY\b|TOKEN\b)[A-Z_]+\b/g;
  const wrong = Array.from(script.matchAll(unknown), ([name]) => name).find(
    (name) => !Object.hasOwn(environmentHere, name) && new RegExp(`\\$\\{?${name}`).test(script),
  );
  if (wrong !== undefined) return { lost: `a build has no ${wrong}` };
  const folder = textIn(job, firstOf(step['working-directory'] ?? defaults['working-directory']) ?? '');
  if (!folder) return { lost: 'its working-directory is not known here' };
  const enter = 'text' in folder && ['', '.', './', '/build'].includes(folder.text) ? '' : `cd ${wordOf(folder)}\n`;
  const shell = textOf(step.shell ?? defaults.shell);
  const [program] = shell.split(' ');
  if (program === '' || program === 'bash')
    return {
      command: `${enter}${inBash(script, /^bash(?: -l \{0\}| --login.*)?$/.test(shell) ? '-eo pipefail' : '-e')}`,
    };
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
    ...['GITHUB_PATH', 'GITHUB_OUTPUT', 'GITHUB_STEP_SUMMARY']
      .filter((name) => script.includes(name))
      .map((name) => `export ${name}="$(mktemp)"`),
  ];
}

/** Directories that the step adds are in the PATH of later steps. */
function withPath(command: string, script: string): string {
  if (!script.includes('GITHUB_PATH')) return command;
  return `${command}\nwhile read -r directory; do PATH="$directory:$PATH"; done < "$GITHUB_PATH"\necho "PATH=$PATH" >> "$HEADRACE_ENV"`;
}
