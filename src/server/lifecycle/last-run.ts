/** Times in milliseconds since 1970. */
export interface TimedBuild {
  created_at: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
}

/** An automatic retry is created when the attempt before it ends. */
const pauseMs = 2000n;

/** The builds since everything before them was over, so the time between two runs of a request counts for neither. */
export function lastRun<Build extends TimedBuild>(builds: readonly Build[]): Build[] {
  const inOrder = builds.toSorted((a, b) => Number(a.created_at - b.created_at));
  let run: Build[] = [];
  let end: bigint | undefined = 0n;
  for (const build of inOrder) {
    if (end !== undefined && build.created_at > end + pauseMs) run = [];
    run.push(build);
    end = end === undefined || build.finished_at === null ? undefined : larger(end, build.finished_at);
  }
  return run;
}

const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);

/** From the start of the first build to the end of the last. */
export function spanOf(builds: readonly TimedBuild[]): { started_at: bigint | null; finished_at: bigint | null } {
  const starts = builds.flatMap(({ started_at: at }) => (at === null ? [] : [at]));
  const ends = builds.flatMap(({ started_at: begun, finished_at: at }) => (begun === null || at === null ? [] : [at]));
  const [first = null, ...others] = starts;
  return {
    started_at: others.reduce((a, b) => (a !== null && a < b ? a : b), first),
    finished_at: ends.reduce<bigint | null>((a, b) => (a !== null && a > b ? a : b), null),
  };
}

/** Milliseconds from `from` to `to` in which none of the builds, and nothing else in `spans`, ran. */
export function waitedIn(
  spans: readonly { started_at: bigint | null; finished_at: bigint | null }[],
  { from, to }: { from: bigint; to: bigint },
): bigint {
  const ran = spans
    .flatMap(({ started_at: start, finished_at: end }) => {
      const until = end ?? to;
      return start === null || until < start ? [] : [{ start, end: until }];
    })
    .toSorted((a, b) => Number(a.start - b.start));
  let waited = 0n;
  let reached = from;
  for (const { start, end } of ran) {
    if (start > reached) waited += start - reached;
    reached = larger(reached, end);
  }
  return to > reached ? waited + to - reached : waited;
}
