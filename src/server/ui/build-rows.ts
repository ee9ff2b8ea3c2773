import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Build } from '../../shared/records/build.ts';
import { html, type Html } from './html.ts';
import { buildWord } from './states.ts';

export function buildName(build: Pick<Build, 'suite_name' | 'variant'>): string {
  return nameWithVariant(build.suite_name, build.variant);
}

/** A key that all attempts of a suite and variant share. */
export function attemptKey({ suite_name: suite, variant }: Pick<Build, 'suite_name' | 'variant'>): string {
  return `suite-${[suite, ...(variant === '' ? [] : [variant])].map(encodeURIComponent).join('/')}`;
}

/** Orders 9 before 10. */
const byVariant = new Intl.Collator('en', { numeric: true });

/** The project's suites in order of creation, then suites that only a branch's file has. */
function bySuite(a: Build, b: Build): number {
  if (a.suite_id === b.suite_id) return a.suite_name < b.suite_name ? -1 : Number(a.suite_name > b.suite_name);
  return a.suite_id === null || (b.suite_id !== null && a.suite_id > b.suite_id) ? 1 : -1;
}

export function newestOfSuites<Of extends Build>(builds: readonly Of[]): Of[] {
  const attempts = Map.groupBy(builds, attemptKey).values();
  const newest = Array.from(attempts, (some) => some.reduce((a, b) => (b.attempt > a.attempt ? b : a)));
  return newest.toSorted(
    (a, b) => bySuite(a, b) || byVariant.compare(a.variant, b.variant) || (a.variant < b.variant ? -1 : 1),
  );
}

/** The builds of a matrix are grouped under a line that counts their states. */
export function groupedBuilds<Of extends Build>(builds: readonly Of[], item: (build: Of) => Html): Html {
  const groups = Array.from(Map.groupBy(builds, ({ suite_name: suite }) => suite).values());
  return html`<ul class="builds">
    ${groups.map((group) => (group.some(({ variant }) => variant !== '') ? variants(group, item) : group.map(item)))}
  </ul>`;
}

function variants<Of extends Build>(group: readonly Of[], item: (build: Of) => Html): Html {
  const newest = newestOfSuites(group);
  const [first] = newest;
  if (!first) return html``;
  const counts = Array.from(Map.groupBy(newest, buildWord), ([word, some]) => `${some.length} ${word}`).join(', ');
  const attempts = Map.groupBy(group, ({ variant }) => variant);
  return html`<li id="variants-${encodeURIComponent(first.suite_name)}" class="variants">
    <details open>
      <summary>${first.suite_name} <span class="aside">${counts}</span></summary>
      <ul>
        ${newest.map(({ variant }) => attempts.get(variant)?.map(item))}
      </ul>
    </details>
  </li>`;
}
