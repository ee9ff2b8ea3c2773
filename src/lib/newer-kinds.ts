/**
 * Work that an older runner would do wrongly. A runner ignores what it does not know of an order, and a suite with an
 * image would run in the machine's programs. Such work gets a kind of its own when an older runner would have got it, and
 * has it until another runner takes it. So it costs nothing where all runners are of today.
 */
const newerKinds: Record<string, string> = {
  run_suite: 'run_newer_suite',
  compile_dependency: 'compile_newer_dependency',
};
const plainKinds = Object.fromEntries(Object.entries(newerKinds).map(([plain, newer]) => [newer, plain]));

/** The kinds that older runners are not given. */
export const onlyNewer: readonly string[] = Object.values(newerKinds);

export function newerKindOf(kind: string): string {
  return newerKinds[kind] ?? kind;
}

/** What such a job is for whoever has it. */
export function plainKindOf(kind: string): string {
  return plainKinds[kind] ?? kind;
}
