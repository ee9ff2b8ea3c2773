import { noWorkspace, type Step } from './types.ts';

/**
 * The script that leads a run through its steps, inside the sandbox.
 *
 * It tells on a descriptor of its own (`reportDescriptor`) when a step starts and how it ends; the steps do not
 * inherit that descriptor, nor the one it waits on. Standard error joins standard output here, not in the runner, so that
 * one pipe keeps the order in which a command wrote to both.
 *
 * SIGTERM goes to every process of a cancelled run, and so to this shell too. It must outlive the command it
 * waits for, or the command would lose its time to tidy up; but it must not go on to the next step.
 *
 * Its last act is to wait (`thenWait`): it is the runner that ends a sandbox, by its first process. Were the
 * script to end by itself, bubblewrap would go before the sandbox's first process does, and that would be left
 * to the machine's init as an orphan; in containers that is often a program which never looks after orphans.
 */
export const reportDescriptor = 5;
/** On this descriptor nothing ever comes: who reads from it waits for ever. */
export const neverDescriptor = 7;
/** From this descriptor a shell that waits in its sandbox reads the script. */
export const scriptDescriptor = 4;

/**
 * What the shell of a sandbox is told before its run is known. It waits for a line, because that wait ends also when
 * nobody is left to write one: bubblewrap ties the sandbox to the life of the runner only at the end of its work, and a
 * runner may die before that. The rest is read as a file, because shells read their input byte by byte. Only Bash would
 * wait for that file to end before it begins; the line tells how long it is.
 */
export const awaitScript = [
  `read -r size <&${scriptDescriptor} || exit`,
  'if [ -z "${BASH_VERSION-}" ]',
  `then . /dev/fd/${scriptDescriptor}`,
  `else eval "$(/usr/bin/head -c "$size" <&${scriptDescriptor})"`,
  'fi',
].join('\n');

/** What it then reads. */
export function announced(script: string): string {
  return `${Buffer.byteLength(script)}\n${script}`;
}

interface ScriptOptions {
  preamble?: readonly string[];
  /** Whether the runner ends the sandbox. */
  thenWait: boolean;
}

export function script(steps: readonly Step[], options: ScriptOptions): string {
  const lines = [
    ...(options.preamble ?? []),
    'exec 2>&1 </dev/null',
    'HEADRACE_STOPPED=', // names that no variable of a run can have
    "trap 'HEADRACE_STOPPED=1' TERM",
    `finish() { ${options.thenWait ? `read -r _ <&${neverDescriptor}; ` : ''}exit "$1"; }`,
  ];
  steps.forEach((step, index) => {
    lines.push(
      '[ -z "$HEADRACE_STOPPED" ] || finish 143',
      `echo start ${index} >&${reportDescriptor}`,
      `/bin/sh -c ${quote(step.command)} ${reportDescriptor}>&- ${neverDescriptor}>&-`,
      'HEADRACE_STATUS=$?',
      `echo end ${index} "$HEADRACE_STATUS" >&${reportDescriptor}`,
      '[ "$HEADRACE_STATUS" -eq 0 ] || finish "$HEADRACE_STATUS"',
    );
  });
  // In braces, so that a shell that reads it from a pipe starts nothing before it has all of it.
  return ['{', ...lines, 'finish 0', '}', ''].join('\n');
}

/** Variables that nobody else may set in Bash, which ends when somebody tries. */
const ownToBash = new Set(['UID', 'EUID', 'PPID', 'OPTIND', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO']);

/** How a shell that has waited becomes the one of a run. */
export function settleIn(workspace: string, environment: Record<string, string>): string[] {
  const variables = Object.entries(environment).map(([name, value]) => {
    const unlessBash = ownToBash.has(name) ? '[ -n "${BASH_VERSION-}" ] || ' : '';
    return `${unlessBash}command export ${name}=${quote(value)}`;
  });
  return [
    `exec ${scriptDescriptor}<&-`,
    `cd ${workspace} || exit 1`,
    'unset OLDPWD',
    // It would still be seen where the kernel does not pass mounts on.
    `[ ! -e ${noWorkspace} ] || { echo the workspace does not show in the sandbox >&2; exit 1; }`,
    // A few names mean something to other shells too, which refuse what does not suit them and go on.
    ...(variables.length > 0 ? ['{', ...variables, '} 2>/dev/null'] : []),
  ];
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export interface Progress {
  /** The index of the step that started last; null when none did. */
  step: number | null;
  /** Its exit status; null when the script did not live to see it. */
  status: number | null;
  /** Whether nothing follows. */
  last: boolean;
}

/** Reads what the script reported. It comes from inside the sandbox, so nothing in it is taken on trust. */
export function progress(report: string, steps: number): Progress {
  let seen: Progress = { step: null, status: null, last: false };
  for (const line of report.split('\n')) {
    const [, word, index, status] = /^(start|end) (\d{1,4})(?: (\d{1,3}))?$/.exec(line) ?? [];
    if (word === undefined || Number(index) >= steps) continue;
    const ended = word === 'end' && status !== undefined ? Number(status) : null;
    seen = { step: Number(index), status: ended, last: ended !== null && (ended !== 0 || Number(index) === steps - 1) };
  }
  return seen;
}
