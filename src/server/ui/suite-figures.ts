import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { SuiteFigures } from '../../shared/records/suite-figures.ts';
import { html, type Html } from './html.ts';
import { moment } from './moments.ts';
import { counted, section, table } from './parts.ts';
import { barPlot, plotPart } from './plots.ts';
import type { ProjectVisit } from './project-pages.ts';
import { timeOrDash } from './project-statistics.ts';
import { lookOf, stateWord } from './states.ts';

type Built = SuiteFigures['builds'][number];

interface Figure {
  title: string;
  of: (build: Built) => number | null;
  words: (value: number) => string;
}

const figures: readonly Figure[] = [
  { title: 'Duration', of: ({ duration_ms: ms }) => ms, words: timeOrDash },
  { title: 'Queue time', of: ({ queue_ms: ms }) => ms, words: timeOrDash },
  { title: 'Tests', of: ({ tests }) => tests, words: String },
  { title: 'Processor time', of: ({ cpu_seconds: cpu }) => cpu, words: (seconds) => timeOrDash(seconds * 1000) },
  { title: 'Memory', of: ({ memory_peak: bytes }) => bytes, words: formatBytes },
  { title: 'Written to disk', of: ({ disk_written: bytes }) => bytes, words: formatBytes },
  { title: 'Received', of: ({ network_received: bytes }) => bytes, words: formatBytes },
  { title: 'Sent', of: ({ network_sent: bytes }) => bytes, words: formatBytes },
];

/** What the last builds of a suite took and used. */
export async function figuresPart(visit: ProjectVisit): Promise<Html | false> {
  const variant = visit.queryText('variant');
  const shown = await visit.api.get('/projects/:project_id/suites/:suite_id/figures', { query: { variant } });
  const { builds, variants } = shown;
  if (builds.length < 2 && variants.length < 2) return false;
  const known = figures.filter(({ of }) => builds.some((build) => (of(build) ?? 0) > 0));
  return section(
    'figures',
    'Last builds',
    html`${variants.length > 1 && variantLinks(visit, shown)}
      <div class="plots">${known.map((figure) => plotOf(figure, builds))}</div>
      <details class="numbers">
        <summary>Table of ${counted(builds.length, 'build')}</summary>
        ${numbersOf(visit, builds, known)}
      </details>`,
    { isTarget: true },
  );
}

function variantLinks({ path }: ProjectVisit, { variant, variants }: SuiteFigures): Html {
  return html`<nav aria-label="Variants" class="row">
    ${variants.map(
      (one) =>
        html`<a
          href="${path}?${new URLSearchParams({ variant: one }).toString()}#figures"
          ${one === variant && html`aria-current="true"`}
          >${one === '' ? 'without a variant' : one}</a
        >`,
    )}
  </nav>`;
}

function plotOf({ title, of, words }: Figure, builds: readonly Built[]): Html {
  const values = builds.map(of).filter((value) => value !== null);
  const newest = values.at(-1);
  const points = builds.map((build) => {
    const value = of(build);
    const text = value === null ? 'no value' : words(value);
    return {
      title: `${build.created_at.slice(0, 10)}, ${stateWord(build.build_state)}: ${text}`,
      value,
      look: lookOf(build.build_state),
    };
  });
  const most = words(Math.max(...values));
  const label = `${title} of the last ${counted(builds.length, 'build')}, oldest first: at most ${most}`;
  return plotPart({
    title,
    figure: newest === undefined ? '–' : words(newest),
    about: `newest, at most ${most}`,
    image: barPlot(points, { label }),
  });
}

function numbersOf({ projectPath }: ProjectVisit, builds: readonly Built[], known: readonly Figure[]): Html {
  const rows = builds.toReversed().map(
    (build) =>
      html`<tr>
        <td class="nowrap">
          <a href="${projectPath}/builds/${build.id_str}">${moment(build.created_at)}</a>
          ${stateWord(build.build_state)}
        </td>
        ${known.map(({ of, words }) => {
          const value = of(build);
          return html`<td class="nowrap">${value === null ? '–' : words(value)}</td>`;
        })}
      </tr>`,
  );
  return table('Last builds', ['Build', ...known.map(({ title }) => title)], rows, { isOfFigures: true });
}
