import type { Build } from '../../shared/records/build.ts';
import { readVariant } from '../../shared/domain/matrix.ts';
import { html, type Html } from './html.ts';
import { duration } from './moments.ts';
import { buildMark } from './states.ts';

interface Place<Of> {
  build: Of;
  row: string;
  column: string;
}

/** The variants of a matrix of two variables as a table. False for any other matrix. */
export function matrixGrid<Of extends Build>(
  builds: readonly Of[],
  { path, name }: { path: string; name: (build: Of) => string },
): Html | false {
  const axes = builds.map(({ variant }) => readVariant(variant) ?? []);
  const [first, second, third] = axes[0] ?? [];
  if (!first || !second || third) return false;
  const places = builds.map((build, at): Place<Of> | undefined => {
    const valueOf = (axis: string): string | undefined => axes[at]?.find((one) => one.name === axis)?.values[0];
    const [row, column] = [valueOf(first.name), valueOf(second.name)];
    return axes[at]?.length === 2 && row !== undefined && column !== undefined ? { build, row, column } : undefined;
  });
  const known = places.filter((place) => place !== undefined);
  const [rows, columns] = [[...new Set(known.map(({ row }) => row))], [...new Set(known.map(({ column }) => column))]];
  if (known.length < builds.length || rows.length < 2 || columns.length < 2) return false;
  const at = new Map(known.map((place) => [JSON.stringify([place.row, place.column]), place.build]));
  const cell = (row: string, column: string): Html => {
    const build = at.get(JSON.stringify([row, column]));
    if (!build) return html`<td class="aside">&ndash;</td>`;
    const { id, started_at: start, finished_at: end } = build;
    return html`<td>
      ${buildMark(build, name(build), `${path}/builds/${id}`)}
      ${start !== null && html`<span class="aside">${duration(start, end)}</span>`}
    </td>`;
  };
  return html`<div class="matrix" role="region" aria-label="By ${first.name} and ${second.name}" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">${first.name} / ${second.name}</th>
          ${columns.map((column) => html`<th scope="col">${column}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              <th scope="row">${row}</th>
              ${columns.map((column) => cell(row, column))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
