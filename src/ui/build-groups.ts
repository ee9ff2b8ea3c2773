import { newestOfSuites, suiteName, type NamedBuild } from './build-rows.ts';
import { html, type Html } from './html.ts';
import { buildWord } from './states.ts';

/** A list of builds. Those of a suite with a matrix stand together, with a line that counts how its variants stand. */
export function groupedBuilds(builds: readonly NamedBuild[], item: (build: NamedBuild) => Html): Html {
  const groups = Array.from(Map.groupBy(builds, ({ suite_id: suite }) => suite).values());
  return html`<ul class="builds">
    ${groups.map((group) => (group.some(({ variant }) => variant !== '') ? variants(group, item) : group.map(item)))}
  </ul>`;
}

function variants(group: readonly NamedBuild[], item: (build: NamedBuild) => Html): Html {
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
