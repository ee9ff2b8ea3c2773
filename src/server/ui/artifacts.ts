import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { BuildDetails } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { counted, empty, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

const mostListed = 200;

export async function artifactsPart(
  { api }: ProjectVisit,
  { artifacts: count, artifact_bytes: bytes }: BuildDetails,
  address: string,
): Promise<Html> {
  if (count === 0)
    return html`<section id="artifacts" data-live>
      ${empty('No artifacts', 'A suite says in its settings which files of its builds are kept.')}
    </section>`;
  const newest = await api.get('/projects/:project_id/builds/:build_id/artifacts', { query: { limit: 1000 } });
  const kept = newest.toSorted((a, b) => (a.path < b.path ? -1 : 1)).slice(0, mostListed);
  const data = `/ui/data${address}/artifacts`;
  return html`<section id="artifacts" aria-label="Artifacts" data-live>
    <div class="title">
      <p class="aside">${counted(count, 'file')}, ${formatBytes(bytes)}</p>
      <a class="button quiet" href="${data}.zip" download>Download all</a>
    </div>
    ${table(
      'Artifacts',
      ['File', 'Size'],
      kept.map(
        ({ id_str: id, path, size }) =>
          html`<tr>
            <td><a class="file" href="${data}/${id}" download>${path}</a></td>
            <td class="nowrap">${formatBytes(size)}</td>
          </tr>`,
      ),
    )}
    ${count > kept.length && html`<p class="aside">${count - kept.length} more are in the archive of all.</p>`}
  </section>`;
}
