import { isAllowedFailure, newestAttempts, type BuildFact } from './rollup.ts';
import { buildMachine, isFinal } from './states.ts';

/*
 * What the needs of suites mean for the builds of a request, as pure functions. A build names the suites that it needs.
 * Only builds of the same request count, and of the request that it joined. So a suite that is not run for the request,
 * because of its rules for example, holds nobody back.
 */

/** The facts about a build that its position in the graph depends on. */
export interface NeedingBuild extends Pick<BuildFact, 'suite_name' | 'attempt' | 'state' | 'isAllowedToFail'> {
  variant: string;
  /** The names of suites. */
  needs: readonly string[];
}

type Standing = 'passed' | 'open' | 'ended';

/** The standing of each suite of a request, by the newest attempts at all its variants. */
export type Standings = ReadonlyMap<string, Standing>;

export function standingsOf(builds: readonly NeedingBuild[]): Standings {
  const standings = new Map<string, Standing>();
  for (const build of newestAttempts(builds)) {
    const [own, others] = [standingOf(build), standings.get(build.suite_name)];
    // All variants of a matrix must pass.
    if (others === undefined || own === 'ended' || others === 'passed') standings.set(build.suite_name, own);
  }
  return standings;
}

function standingOf({ state, isAllowedToFail }: NeedingBuild): Standing {
  if (state === 'passed' || isAllowedFailure(state, isAllowedToFail)) return 'passed';
  return isFinal(buildMachine, state) ? 'ended' : 'open';
}

/**
 * The builds among which those of a request find what they need: its own, and those of the request that it joined, except
 * for suites that both have.
 */
export function withFirst<Build extends { suite_name: string }>(
  builds: readonly Build[],
  ofFirst: readonly Build[],
): Build[] {
  const own = new Set(builds.map(({ suite_name: name }) => name));
  return [...builds, ...ofFirst.filter(({ suite_name: name }) => !own.has(name))];
}

/** The needed suites that have not passed yet. */
export function notYetPassed({ needs }: Pick<NeedingBuild, 'needs'>, standings: Standings): string[] {
  return needs.filter((name) => (standings.get(name) ?? 'passed') !== 'passed');
}

export interface SortedWaiting<Build> {
  /** Everything that they need has passed. */
  ready: Build[];
  /** Something that they need has ended without having passed, or will never begin. */
  vain: Build[];
}

/** Which of the waiting builds can go on, and which never will. `all` are the builds of the request. */
export function sortWaiting<Build extends NeedingBuild>(
  waiting: readonly Build[],
  all: readonly NeedingBuild[],
): SortedWaiting<Build> {
  const standings = standingsOf(all);
  const vain = new Set<Build>();
  const behind = behindEach(waiting);
  const ended = Array.from(standings).flatMap(([name, standing]) => (standing === 'ended' ? [name] : []));
  for (const name of ended) {
    for (const build of behind.get(name) ?? []) {
      if (vain.has(build)) continue;
      vain.add(build);
      ended.push(build.suite_name);
    }
  }
  const isReady = (build: Build): boolean => !vain.has(build) && notYetPassed(build, standings).length === 0;
  return { ready: waiting.filter(isReady), vain: [...vain] };
}

/** For each name of a suite, the builds that need it. */
function behindEach<Build extends Pick<NeedingBuild, 'needs'>>(builds: readonly Build[]): Map<string, Build[]> {
  const pairs = builds.flatMap((build) => build.needs.map((name) => ({ name, build })));
  const byName = Map.groupBy(pairs, ({ name }) => name);
  return new Map(Array.from(byName, ([name, some]) => [name, some.map(({ build }) => build)]));
}

/**
 * The builds that have to run so that the chosen ones can: these, the builds that were skipped because of them, and
 * what any of these needs and has not passed. `all` are the builds of the request. Only newest attempts are taken, and
 * none that is under way.
 */
export function withNeeded<Build extends NeedingBuild>(chosen: readonly Build[], all: readonly Build[]): Build[] {
  const newest = newestAttempts(all);
  const behind = behindEach(newest.filter(({ state }) => state === 'skipped'));
  const wanted = new Set(chosen);
  for (const build of wanted) for (const skipped of behind.get(build.suite_name) ?? []) wanted.add(skipped);
  const bySuite = Map.groupBy(newest, (build) => build.suite_name);
  for (const build of wanted)
    for (const needed of build.needs.flatMap((name) => bySuite.get(name) ?? []))
      if (standingOf(needed) === 'ended') wanted.add(needed);
  return [...wanted];
}
