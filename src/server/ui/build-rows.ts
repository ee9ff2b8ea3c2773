import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Build } from '../../shared/records/build.ts';
import { html, type Html } from './html.ts';
import { matrixGrid } from './matrix-grid.ts';
import { buildWord, lookOfBuild } from './states.ts';

export function buildName(build: Pick<Build, 'suite_name' | 'variant'>): string {
  return nameWithVariant(build.suite_name, build.variant);
}

/** A key that all attempts of a suite and variant share. */
export function attemptKey({ suite_name: suite, variant }: Pick<Build, 'suite_name' | 'variant'>): string {
  return `suite-${[suite, ...(variant === '' ? [] : [variant])].map(encodeURIComponent).join('/')}`;
}

/** In a word or two; false for a build that passed, was cancelled or goes on. */
export function diedOf({ build_state: state, exit_status: status, failure_reason: reason }: Build): Html | false {
  if (!['failed', 'errored', 'timed_out'].includes(state)) return false;
  const words = reason === '' && status !== null ? `exit ${status}` : reason;
  return words !== '' && html`<code class="aside">${words}</code>`;
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

interface Grouping<Of> {
  item: (build: Of) => Html;
  /** With it, a matrix of two variables is shown as a grid, and the variants that passed are folded. */
  path?: string;
}

/** The builds of a matrix are grouped under a line that counts their states. */
export function groupedBuilds<Of extends Build>(builds: readonly Of[], grouping: Grouping<Of>): Html {
  const groups = Array.from(Map.groupBy(builds, ({ suite_name: suite }) => suite).values());
  return html`<ul class="builds">
    ${groups.map((group) =>
      group.some(({ variant }) => variant !== '') ? variants(group, grouping) : group.map(grouping.item),
    )}
  </ul>`;
}

function variants<Of extends Build>(group: readonly Of[], { item, path }: Grouping<Of>): Html {
  const newest = newestOfSuites(group);
  const [first] = newest;
  if (!first) return html``;
  const counts = Array.from(Map.groupBy(newest, buildWord), ([word, some]) => `${some.length} ${word}`).join(', ');
  const attempts = Map.groupBy(group, ({ variant }) => variant);
  const listed = (some: readonly Of[]): Html =>
    html`<ul>
      ${some.map(({ variant }) => attempts.get(variant)?.map(item))}
    </ul>`;
  const id = `variants-${encodeURIComponent(first.suite_name)}`;
  const grid = path !== undefined && matrixGrid(newest, { path, name: buildName });
  const [calm, others] = [true, false].map((isCalm) => newest.filter((build) => isOfNote(build) !== isCalm));
  return html`<li id="${id}" class="variants">
    <details open>
      <summary>${first.suite_name} <span class="aside">${counts}</span></summary>
      ${
        grid
          ? html`${grid} ${others && others.length > 0 && listed(others)}
            ${
              calm &&
              calm.length > 0 &&
              html`<details id="${id}-rest">
                <summary>${others?.length === 0 ? 'All variants' : 'Other variants'}</summary>
                ${listed(calm)}
              </details>`
            }`
          : listed(newest)
      }
    </details>
  </li>`;
}

function isOfNote(build: Build): boolean {
  return ['bad', 'warn', 'held'].includes(lookOfBuild(build)) || build.flaky;
}
