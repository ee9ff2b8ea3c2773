import type { Queries } from '../db/open.ts';
import { inUnits } from '../lib/amounts.ts';
import { html, type Html } from './html.ts';
import { table } from './parts.ts';

/** A page lists so many; all are in the archive. */
const mostListed = 200;

/**
 * The files that were kept of a build; nothing where there are none. `address` is the address of the build, which the
 * visitor was admitted to.
 */
export async function artifactsPart(db: Queries, buildId: bigint, address: string): Promise<Html | false> {
  const ofBuild = db.selectFrom('artifacts').where('build_id', '=', buildId);
  const all = ofBuild.select((of) => [of.fn.countAll().as('files'), of.fn.sum('size').as('bytes')]);
  const { files, bytes } = await all.executeTakeFirstOrThrow();
  const count = Number(files);
  if (count === 0) return false;
  const kept = await ofBuild.select(['id', 'path', 'size']).orderBy('path').limit(mostListed).execute();
  const data = `/ui/data${address}/artifacts`;
  return html`<section aria-labelledby="artifacts-title">
    <div class="title">
      <h2 id="artifacts-title">
        Artifacts
        <span class="aside">${count === 1 ? '1 file' : `${count} files`}, ${inUnits(Number(bytes))}</span>
      </h2>
      <a class="button quiet" href="${data}.zip" download>Download all</a>
    </div>
    ${table(
      'Artifacts',
      ['File', 'Size'],
      kept.map(
        ({ id, path, size }) =>
          html`<tr>
            <td><a class="file" href="${data}/${id}" download>${path}</a></td>
            <td class="nowrap">${inUnits(Number(size))}</td>
          </tr>`,
      ),
    )}
    ${count > kept.length && html`<p class="aside">${count - kept.length} more are in the archive of all.</p>`}
  </section>`;
}
