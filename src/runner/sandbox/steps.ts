import { noWorkspace, type Job, type Step } from './types.ts';

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
  /** The path of the terminal, if the run has one. */
  terminal?: string | undefined;
}

export function script(steps: readonly Step[], options: ScriptOptions = {}): string {
  const lines = [
    ...(options.preamble ?? []),
    'exec 2>&1 </dev/null',
    // The first process of a sandbox leads its session, and the terminal that it opens is the session's: a Ctrl-C typed
    // there interrupts what runs. The first process itself is not interrupted: it handles no such signal.
    ...(options.terminal === undefined ? [] : [`: <>${options.terminal}`]),
    'HEADRACE_STOPPED=', // names that no variable of a run can have
    "trap 'HEADRACE_STOPPED=1' TERM",
  ];
  steps.forEach((step, index) => {
    lines.push(
      '[ -z "$HEADRACE_STOPPED" ] || exit 143',
      `echo start ${index} >&${reportDescriptor}`,
      `${runStep(step.command, options.terminal)} ${reportDescriptor}>&-`,
      'HEADRACE_STATUS=$?',
      `echo end ${index} "$HEADRACE_STATUS" >&${reportDescriptor}`,
      '[ "$HEADRACE_STATUS" -eq 0 ] || exit "$HEADRACE_STATUS"',
    );
  });
  // In braces, so that a shell that reads from a pipe starts no command before it has the whole script.
  return ['{', ...lines, 'exit 0', '}', ''].join('\n');
}

function runStep(command: string, terminal: string | undefined): string {
  return `/bin/sh -e -c ${quote(command)}${terminal === undefined ? '' : ` <>${terminal} >&0 2>&0`}`;
}

/** Variables that only Bash itself may set: an attempt ends it. */
const ownToBash = new Set(['UID', 'EUID', 'PPID', 'OPTIND', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO']);

/** Turns the waiting shell into the shell of a run. */
export function settleIn(workspace: string, environment: Record<string, string>): string[] {
  const variables = Object.entries(environment).map(([name, value]) => {
    const unlessBash = ownToBash.has(name) ? '[ -n "${BASH_VERSION-}" ] || ' : '';
    return `${unlessBash}command export ${name}=${quote(value)}`;
  });
  return [
    `exec ${scriptDescriptor}<&-`,
    `cd ${workspace} || exit 1`,
    'unset OLDPWD',
    // It would still be visible where the kernel does not propagate mounts.
    `[ ! -e ${noWorkspace} ] || { echo the workspace does not show in the sandbox >&2; exit 1; }`,
    // A few names are special in other shells too, which refuse unsuitable values and go on.
    ...(variables.length > 0 ? ['{', ...variables, '} 2>/dev/null'] : []),
  ];
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/**
 * Tells of each step when the report comes to it, whatever else the report says: a step begins once, after the end of the
 * one before it, and ends once.
 */
export function reportSteps({ steps, onStep = () => {} }: Pick<Job, 'steps' | 'onStep'>): (report: string) => void {
  let reported = 0;
  return (report) => {
    for (; reported < 2 * steps.length; reported += 1) {
      const [at, what] = [reported >> 1, reported % 2 === 0 ? ('start' as const) : ('end' as const)];
      if (!new RegExp(`^${what} ${at}( |$)`, 'm').test(report)) return;
      onStep(at, what);
    }
  };
}

export interface Progress {
  /** The index of the step that started last; null when none did. */
  step: number | null;
  /** Its exit status; null when the script ended before it, or before the next step. */
  status: number | null;
}

/** Reads the script's report. It comes from inside the sandbox, so it is untrusted. */
export function progress(report: string, steps: number): Progress {
  let seen: Progress = { step: null, status: null };
  for (const line of report.split('\n')) {
    const [, word, index, status] = /^(start|end) (\d{1,4})(?: (\d{1,3}))?$/.exec(line) ?? [];
    if (word === undefined || Number(index) >= steps) continue;
    const ended = word === 'end' && status !== undefined ? Number(status) : null;
    const isLast = ended !== 0 || Number(index) === steps - 1;
    seen = { step: Number(index), status: isLast ? ended : null };
  }
  return seen;
}
