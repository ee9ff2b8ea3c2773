import { isAllowedFailure, newestAttempts, type BuildFact } from './rollup.ts';
import { buildMachine, isFinal } from './states.ts';

/*
 * The effect of needs on builds, as pure functions. Only builds of the same request, and of the request that it joined,
 * count. So a suite that does not run, for example because of its rules, blocks nothing.
 */

export interface NeedingBuild extends Pick<BuildFact, 'suite_name' | 'attempt' | 'state' | 'isAllowedToFail'> {
  variant: string;
  needs: readonly string[];
}

type Standing = 'passed' | 'open' | 'ended';

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

/** The request's own builds, plus the first request's builds of suites that the request itself does not have. */
export function withFirst<Build extends { suite_name: string }>(
  builds: readonly Build[],
  ofFirst: readonly Build[],
): Build[] {
  const own = new Set(builds.map(({ suite_name: name }) => name));
  return [...builds, ...ofFirst.filter(({ suite_name: name }) => !own.has(name))];
}

export function notYetPassed({ needs }: Pick<NeedingBuild, 'needs'>, standings: Standings): string[] {
  return needs.filter((name) => (standings.get(name) ?? 'passed') !== 'passed');
}

export interface SortedWaiting<Build> {
  ready: Build[];
  /** A need has ended without passing, or will never begin. */
  vain: Build[];
}

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

function behindEach<Build extends Pick<NeedingBuild, 'needs'>>(builds: readonly Build[]): Map<string, Build[]> {
  const pairs = builds.flatMap((build) => build.needs.map((name) => ({ name, build })));
  const byName = Map.groupBy(pairs, ({ name }) => name);
  return new Map(Array.from(byName, ([name, some]) => [name, some.map(({ build }) => build)]));
}

/**
 * The builds to run for the chosen ones: the chosen builds, builds skipped because of them, and all needs that have not
 * passed. Returns only newest attempts that are not under way.
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
