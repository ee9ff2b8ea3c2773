import type { Written } from './step-files.ts';
import { noWorkspace, type Job, type NextStep, type Step } from './types.ts';
import { quote } from '../../shared/lib/shell-word.ts';

/**
 * The descriptor of the script's reports; steps do not inherit it. Standard error joins standard output in the script,
 * so that one pipe keeps the order of the writes.
 *
 * SIGTERM reaches every process of a cancelled run. The script's shell outlives the current command, so that it can
 * clean up, but starts no further step. In a sandbox, the kernel kills all processes when this shell ends.
 */
export const reportDescriptor = 5;
export const scriptDescriptor = 4;
/** Carries the shell's errors until it has its script, and then the output of probes. */
const asideDescriptor = 7;

export const ready = 'ready';

/**
 * The program of the shell that waits for a run. It first reads a line, because that read also ends if the runner dies:
 * bubblewrap ties the sandbox to the runner only late. It reads the rest as a file, because shells read input byte by
 * byte. Bash would wait for the end of that file, so the line contains the script's length. Meanwhile, an image may
 * replace the programs. So the shell prints `ready` when it no longer needs any, and Bash also works without `head`.
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

export function announced(script: string): string {
  return `${Buffer.byteLength(script)}\n${script}`;
}

interface ScriptOptions {
  preamble?: readonly string[];
  variables?: readonly string[];
  terminal?: string | undefined;
}

/**
 * Variables are set only in the process of each step: some change how a shell behaves, and this shell is not the
 * build's. Its own names begin with HEADRACE. A name from a user cannot, and no other HEADRACE variable clashes.
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
    // The first process leads the session, so the terminal that it opens becomes the session's: Ctrl-C there interrupts
    // the step. The first process handles no such signal and continues.
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

/** Exits with the status of the first failed step. A report that a build forged does not change it. */
const exit = 'exit "${HEADRACE_FAILED:-0}"';

/** With several steps, the runner sends the next step in lines that each begin with a plus. */
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
  // A few names are special in some shells, which refuse unsuitable values and continue.
  return [`${name}() {`, ...(lines.length > 0 ? ['{', ...lines, '} 2>/dev/null'] : [':']), '}'];
}

/** The `await` step waits for the background process. A signal that wakes this shell does not end the wait. */
const awaiting = [
  'while :; do wait "$HEADRACE_BACKGROUND"; HEADRACE_GOT=$?',
  'kill -0 "$HEADRACE_BACKGROUND" 2>/dev/null || return "$HEADRACE_GOT"; done',
].join('\n');

function stepFunction({ command, kind, program }: Step, at: number, terminal: string | undefined): string {
  if (kind === 'await') return `HEADRACE_STEP_${at}() {\n${awaiting}\n}`;
  const alive =
    kind === 'probe' ? 'kill -0 "$HEADRACE_BACKGROUND" 2>/dev/null || { wait "$HEADRACE_BACKGROUND"; exit; }\n' : '';
  const inBackground = kind === 'background' ? ' & HEADRACE_BACKGROUND=$!' : '';
  const apart = kind === 'probe' ? ` >&${asideDescriptor} 2>&1` : '';
  const shown = terminal === undefined ? '' : ` <>${terminal} >&0 2>&0`;
  const started = program
    ? `cd ${quote(program.directory)} && exec ${program.argv.map(quote).join(' ')}`
    : `exec /bin/sh -e -c ${quote(command)}`;
  return `HEADRACE_STEP_${at}() { ${alive}( HEADRACE_SET; HEADRACE_ADD; ${started}${shown} ) ${scriptDescriptor}<&- ${reportDescriptor}>&-${apart} ${asideDescriptor}>&-${inBackground}; }`;
}

/** Only Bash may set these: an attempt ends it. */
const ownToBash = new Set(['UID', 'EUID', 'PPID', 'OPTIND', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO']);

export function settleIn(workspace: string): string[] {
  return [
    `cd ${workspace} || exit 1`,
    'unset OLDPWD',
    // The file is visible if the kernel did not propagate the workspace's mount.
    `[ ! -e ${noWorkspace} ] || { echo the workspace does not show in the sandbox >&2; exit 1; }`,
  ];
}

/** The shell writes the files itself: a program would show their content in its arguments. */
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
  step: number | null;
  /** Its exit status; null if the run ended before the step did, or before the next one began. */
  status: number | null;
}

export interface Leading {
  /** Takes the script's report, which comes from inside the sandbox and is untrusted. */
  hear(report: string): void;
  hasBegun(): boolean;
  /** Must be called when the run is over and all its output was delivered. */
  finish(): Promise<Progress>;
}

interface LeadingParts {
  job: Pick<Job, 'steps' | 'first' | 'next' | 'onStep'>;
  /** Settles when all output so far was delivered. */
  delivered: () => Promise<void>;
  take: () => Written;
  /** Lines that the shell runs before the next step. */
  between?: () => readonly string[];
  isEnding: () => boolean;
  tell: (text: string) => void;
  fail: (error: unknown) => void;
}

/** Even if a build forges reports, each step begins once, after the end of the previous step, and ends once. */
export function leadThrough({ job, delivered, take, between = () => [], isEnding, tell, fail }: LeadingParts): Leading {
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
    tell(toldAs(...between(), ...added, `HEADRACE_RUN ${following.at}`));
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

function inOrder(count: number): NonNullable<Job['next']> {
  return async ({ at, status }) => (status === 0 && at + 1 < count ? { at: at + 1, environment: {} } : undefined);
}
