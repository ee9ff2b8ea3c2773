import { nameWithVariant } from '../shared/matrix.ts';
import type { Build } from '../records/build.ts';
import type { Suite } from '../records/suite.ts';
import { html, type Html } from './html.ts';
import { buildWord } from './states.ts';

/** Builds with the names of their suites. */
export type Named<Of extends Build = Build> = Of & {
  /** null once the suite is deleted. */
  suite_name: string | null;
};

export function named<Of extends Build>(builds: readonly Of[], suites: readonly Pick<Suite, 'id' | 'name'>[]) {
  const names = new Map(suites.map(({ id, name }) => [id, name]));
  return builds.map((build): Named<Of> => ({ ...build, suite_name: names.get(build.suite_id) ?? null }));
}

export function suiteName({ suite_name: name }: Pick<Named, 'suite_name'>): string {
  return name ?? '(deleted suite)';
}

/** The suite with the variant of the build. */
export function buildName(build: Pick<Named, 'suite_name' | 'variant'>): string {
  return nameWithVariant(suiteName(build), build.variant);
}

/** The same for all attempts at a suite and a variant. */
export function attemptKey({ suite_id: suite, variant }: Pick<Build, 'suite_id' | 'variant'>): string {
  return variant === '' ? `suite-${suite}` : `suite-${suite}-${encodeURIComponent(variant)}`;
}

/** 9 comes before 10. */
const byVariant = new Intl.Collator('en', { numeric: true });

/** The newest attempt of each suite and variant, in the order in which the suites were created. */
export function newestOfSuites<Of extends Build>(builds: readonly Of[]): Of[] {
  const attempts = Map.groupBy(builds, attemptKey).values();
  const newest = Array.from(attempts, (some) => some.reduce((a, b) => (b.attempt > a.attempt ? b : a)));
  return newest.toSorted(
    (a, b) =>
      Number(a.suite_id - b.suite_id) || byVariant.compare(a.variant, b.variant) || (a.variant < b.variant ? -1 : 1),
  );
}

/** A list of builds. Those of a suite with a matrix stand together, with a line that counts how its variants stand. */
export function groupedBuilds<Of extends Named>(builds: readonly Of[], item: (build: Of) => Html): Html {
  const groups = Array.from(Map.groupBy(builds, ({ suite_id: suite }) => suite).values());
  return html`<ul class="builds">
    ${groups.map((group) => (group.some(({ variant }) => variant !== '') ? variants(group, item) : group.map(item)))}
  </ul>`;
}

function variants<Of extends Named>(group: readonly Of[], item: (build: Of) => Html): Html {
  const newest = newestOfSuites(group);
  const [first] = newest;
  if (!first) return html``;
  const counts = Array.from(Map.groupBy(newest, buildWord), ([word, some]) => `${some.length} ${word}`).join(', ');
  const attempts = Map.groupBy(group, ({ variant }) => variant);
  return html`<li id="variants-${first.suite_id}" class="variants">
    <details open>
      <summary>${suiteName(first)} <span class="aside">${counts}</span></summary>
      <ul>
        ${newest.map(({ variant }) => attempts.get(variant)?.map(item))}
      </ul>
    </details>
  </li>`;
}
