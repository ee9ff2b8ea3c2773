import type { Written } from './step-files.ts';
import { noWorkspace, type Job, type NextStep, type Step } from './types.ts';
import { quote } from '../../shared/lib/shell-word.ts';

/**
 * The script that runs the steps of a run, inside the sandbox.
 *
 * It reports the start and the end of each step on a separate descriptor (`reportDescriptor`), which the steps do not
 * inherit. Standard error joins standard output here, not in the runner, so that one pipe keeps the order in which a
 * command wrote to both.
 *
 * SIGTERM goes to every process of a cancelled run, and so to this shell too. The shell must outlive the current
 * command, so that the command has time to clean up; but it must not start the next step.
 *
 * In a sandbox this shell is the first process (arguments.ts). When it ends, the kernel kills all others, and only then
 * does bubblewrap hear of it.
 */
export const reportDescriptor = 5;
/** The shell that waits in its sandbox reads the script from this descriptor. */
export const scriptDescriptor = 4;
/** The pipe in which the shell complains until it has its script. From then on, steps `beside` others write to it. */
const asideDescriptor = 7;

/** What the waiting shell says when it is there. */
export const ready = 'ready';

/**
 * The program of a sandbox's shell before its run is known. It waits for a line, because that wait also ends when no
 * writer is left: bubblewrap ties the sandbox to the life of the runner only at the end of its work, and a runner may
 * die before that. The rest is read as a file, because shells read their input byte by byte. Only Bash would wait for
 * the end of that file before it begins; the line tells the length. Where a run has an image, the programs that were
 * there at the start are gone by then: so the shell says when it needs none of them any more, and Bash does without
 * `head` where the image has none.
 */
export const awaitScript = [
  `echo ${ready} >&2`,
  `read -r size <&${scriptDescriptor} || exit`,
  'if [ -z "${BASH_VERSION-}" ]',
  `then . /dev/fd/${scriptDescriptor}`,
  `elif [ -x /usr/bin/head ]; then eval "$(/usr/bin/head -c "$size" <&${scriptDescriptor})"`,
  `else IFS= read -r -N "$size" HEADRACE_SCRIPT <&${scriptDescriptor}; eval "$HEADRACE_SCRIPT"`,
  'fi',
].join('\n');

/** The line and the script that it then reads. */
export function announced(script: string): string {
  return `${Buffer.byteLength(script)}\n${script}`;
}

interface ScriptOptions {
  preamble?: readonly string[];
  /** Lines that set the variables of the steps. */
  variables?: readonly string[];
  /** The path of the terminal, if the run has one. */
  terminal?: string | undefined;
}

/**
 * Variables are set in the process of each step alone: some of them change what a shell does, and this one is not the
 * build's. Names begin with HEADRACE, which no variable of a run can.
 */
export function script(
  { steps, first = 0, aside }: Pick<Job, 'steps' | 'first' | 'aside'>,
  options: ScriptOptions = {},
): string {
  const { preamble = [], variables = [], terminal } = options;
  const ending = steps.length > 1 ? awaitNext : [exit];
  const lines = [
    ...preamble,
    ...(steps.length > 1 ? [] : [`exec ${scriptDescriptor}<&-`]),
    `exec ${asideDescriptor}>${aside ? '&2' : '/dev/null'} 2>&1 </dev/null`,
    // The first process of a sandbox leads its session, and the terminal that it opens is the session's: a Ctrl-C typed
    // there interrupts what runs. The first process itself is not interrupted: it handles no such signal.
    ...(terminal === undefined ? [] : [`: <>${terminal}`]),
    'HEADRACE_STOPPED= HEADRACE_FAILED=',
    "trap 'HEADRACE_STOPPED=1' TERM",
    ...settingOf('HEADRACE_SET', variables),
    ...settingOf('HEADRACE_ADD', []),
    ...steps.map((step, at) => stepFunction(step, at, terminal)),
    'HEADRACE_RUN() {',
    `echo start "$1" >&${reportDescriptor}`,
    '"HEADRACE_STEP_$1"',
    'HEADRACE_STATUS=$?',
    '[ "$HEADRACE_STATUS" -eq 0 ] || HEADRACE_FAILED=${HEADRACE_FAILED:-$HEADRACE_STATUS}',
    `echo end "$1" "$HEADRACE_STATUS" >&${reportDescriptor}`,
    '}',
    `HEADRACE_RUN ${first}`,
    ...ending,
  ];
  // In braces, so that a shell that reads from a pipe starts no command before it has the whole script.
  return ['{', ...lines, '}', ''].join('\n');
}

/** The status of the first step that failed: a report that a build has forged does not change it. */
const exit = 'exit "${HEADRACE_FAILED:-0}"';

/** Where there are several steps, the runner says which one is next, in lines that each begin with a plus. */
const awaitNext = [
  'while [ -z "$HEADRACE_STOPPED" ]; do',
  'HEADRACE_TOLD=',
  `while IFS= read -r HEADRACE_LINE <&${scriptDescriptor} && [ "$HEADRACE_LINE" != . ]; do`,
  'HEADRACE_TOLD="$HEADRACE_TOLD${HEADRACE_LINE#+}\n"',
  'done',
  '[ -n "$HEADRACE_TOLD" ] || exit 1',
  '[ -z "$HEADRACE_STOPPED" ] || break',
  'eval "$HEADRACE_TOLD"',
  'done',
  'exit 143',
];

function toldAs(...lines: string[]): string {
  return [
    ...lines
      .join('\n')
      .split('\n')
      .map((line) => `+${line}`),
    '.',
    '',
  ].join('\n');
}

function settingOf(name: string, lines: readonly string[]): string[] {
  // A few names are special in some shells, which refuse unsuitable values and go on.
  return [`${name}() {`, ...(lines.length > 0 ? ['{', ...lines, '} 2>/dev/null'] : [':']), '}'];
}

/** What runs while other steps do is awaited by a step of its own: a signal that wakes this shell does not end the wait. */
const awaiting = [
  'while :; do wait "$HEADRACE_BESIDE"; HEADRACE_GOT=$?',
  'kill -0 "$HEADRACE_BESIDE" 2>/dev/null || return "$HEADRACE_GOT"; done',
].join('\n');

function stepFunction({ command, kind, program }: Step, at: number, terminal: string | undefined): string {
  if (kind === 'await') return `HEADRACE_STEP_${at}() {\n${awaiting}\n}`;
  const alive =
    kind === 'beside' ? 'kill -0 "$HEADRACE_BESIDE" 2>/dev/null || { wait "$HEADRACE_BESIDE"; exit; }\n' : '';
  const inBackground = kind === 'background' ? ' & HEADRACE_BESIDE=$!' : '';
  const apart = kind === 'beside' ? ` >&${asideDescriptor} 2>&1` : '';
  const shown = terminal === undefined ? '' : ` <>${terminal} >&0 2>&0`;
  const started = program
    ? `cd ${quote(program.directory)} && exec ${program.words.map(quote).join(' ')}`
    : `exec /bin/sh -e -c ${quote(command)}`;
  return `HEADRACE_STEP_${at}() { ${alive}( HEADRACE_SET; HEADRACE_ADD; ${started}${shown} ) ${scriptDescriptor}<&- ${reportDescriptor}>&-${apart} ${asideDescriptor}>&-${inBackground}; }`;
}

/** Variables that only Bash itself may set: an attempt ends it. */
const ownToBash = new Set(['UID', 'EUID', 'PPID', 'OPTIND', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO']);

/** Turns the waiting shell into the shell of a run. */
export function settleIn(workspace: string): string[] {
  return [
    `cd ${workspace} || exit 1`,
    'unset OLDPWD',
    // It would still be visible where the kernel does not propagate mounts.
    `[ ! -e ${noWorkspace} ] || { echo the workspace does not show in the sandbox >&2; exit 1; }`,
  ];
}

/** The shell writes them itself: a program would show what is in them in its arguments. */
export function writingFiles(files: Job['files'] = {}): string[] {
  return Object.entries(files).map(
    ([path, content]) => `( umask 077 && printf %s ${quote(content)} >${quote(path)} ) || exit 1`,
  );
}

export function settingVariables(environment: Readonly<Record<string, string>>): string[] {
  return Object.entries(environment).map(([name, value]) => {
    const unlessBash = ownToBash.has(name) ? '[ -n "${BASH_VERSION-}" ] || ' : '';
    return `${unlessBash}command export ${name}=${quote(value)}`;
  });
}

export interface Progress {
  /** The place of the step that began last; null when none did. */
  step: number | null;
  /** Its exit status; null when the run ended before it, or before the next step. */
  status: number | null;
}

export interface Leading {
  /** Takes what the script reports. It comes from inside the sandbox, so it is untrusted. */
  hear(report: string): void;
  hasBegun(): boolean;
  /** To be called when the run is over and all its output was delivered. */
  finish(): Promise<Progress>;
}

interface LeadingParts {
  job: Pick<Job, 'steps' | 'first' | 'next' | 'onStep'>;
  /** Settles when all output so far was delivered. */
  delivered: () => Promise<void>;
  take: () => Written;
  /** Whether no further step may begin. */
  isEnding: () => boolean;
  tell: (text: string) => void;
  fail: (error: unknown) => void;
}

/**
 * Leads a run through its steps. Whatever the report says, a step begins once, after the end of the one before it, and ends
 * once.
 */
export function leadThrough({ job, delivered, take, isEnding, tell, fail }: LeadingParts): Leading {
  const { steps, onStep = () => {}, next = inOrder(steps.length) } = job;
  let at = job.first ?? 0;
  let state: 'told' | 'running' | 'ended' | 'over' = 'told';
  let status: number | null = null;
  let begun: number | null = null;
  let rest = '';
  let deciding = Promise.resolve();
  const decide = async (): Promise<NextStep | undefined> => {
    await delivered();
    const following = isEnding() ? undefined : await next({ at, status: status ?? 0, written: take() });
    state = following ? 'told' : 'over';
    at = following?.at ?? at;
    return following;
  };
  const goOn = async (): Promise<void> => {
    const following = await decide();
    if (!following) return tell(toldAs(exit));
    const added = settingOf('HEADRACE_ADD', settingVariables(following.environment));
    tell(toldAs(...added, `HEADRACE_RUN ${following.at}`));
  };
  const hearLine = (line: string): void => {
    const [, word, place, code] = /^(start|end) (\d{1,4})(?: (\d{1,3}))?$/.exec(line) ?? [];
    if (Number(place) !== at) return;
    if (word === 'start' && state === 'told') {
      [state, begun] = ['running', at];
      onStep(at, 'start');
    } else if (word === 'end' && state === 'running' && code !== undefined) {
      [state, status] = ['ended', Number(code)];
      onStep(at, 'end');
      if (steps.length > 1) deciding = goOn().catch(fail);
    }
  };
  return {
    hear(report) {
      const lines = (rest + report).split('\n');
      rest = (lines.pop() ?? '').slice(0, 100);
      lines.forEach(hearLine);
    },
    hasBegun: () => begun !== null,
    async finish() {
      await deciding;
      if (state === 'ended') await decide();
      return { step: begun, status: state === 'over' ? status : null };
    },
  };
}

/** One after the other, until one fails. */
function inOrder(count: number): NonNullable<Job['next']> {
  return async ({ at, status }) => (status === 0 && at + 1 < count ? { at: at + 1, environment: {} } : undefined);
}
