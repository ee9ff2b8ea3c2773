import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { BuildDetails } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { counted, cursors, empty, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

const perPage = 200;
const ofBuild = '/projects/:project_id/builds/:build_id';

export async function artifactsPart(
  visit: ProjectVisit,
  { artifacts: count, artifact_bytes: bytes }: BuildDetails,
  address: string,
): Promise<Html> {
  if (count === 0)
    return html`<section id="artifacts" data-live>
      ${empty('No artifacts', 'A suite says in its settings which files of its builds are kept.')}
    </section>`;
  const sites = await visit.api.get(`${ofBuild}/artifacts/sites`);
  // Runners send files in the order of their names, so the oldest come first here.
  const { before, after = before === undefined ? '0' : undefined } = cursors(visit);
  const page = await visit.api.list(`${ofBuild}/artifacts`, { query: { limit: perPage, before, after } });
  const listed = page.items.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const [newest, oldest] = [page.items[0], page.items.at(-1)];
  const link = (text: string, cursor: string, at: { id_str: string } | undefined, isThere: boolean): Html | false =>
    isThere && at !== undefined && html`<a href="${visit.path}?${cursor}=${at.id_str}">${text}</a>`;
  const isFirst = after === '0' || !page.older;
  const pageOf = (id: string): string => `/ui${address}/artifacts/${id}`;
  return html`<section id="artifacts" aria-label="Artifacts" data-live>
    <div class="title">
      <p class="aside">${counted(count, 'file')}, ${formatBytes(bytes)}</p>
      <a class="button quiet" href="/ui/data${address}/artifacts.zip" download>Download all</a>
    </div>
    ${
      sites.length > 0 &&
      html`<p class="row">
        <span class="aside">Sites:</span>
        ${sites.map(({ id_str: id, path }) => html`<a class="file" href="${pageOf(id)}">${path || 'index.html'}</a>`)}
      </p>`
    }
    ${table(
      'Artifacts',
      ['File', 'Size'],
      listed.map(
        ({ id_str: id, path, size }) =>
          html`<tr>
            <td><a class="file" href="${pageOf(id)}">${path}</a></td>
            <td class="nowrap">${formatBytes(size)}</td>
          </tr>`,
      ),
    )}
    ${
      (!isFirst || page.newer) &&
      html`<nav aria-label="Pages of files" class="row">
        ${link('Earlier files', 'before', oldest, !isFirst)} ${link('Later files', 'after', newest, page.newer)}
      </nav>`
    }
  </section>`;
}
