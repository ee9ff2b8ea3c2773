import type { Queries } from '../db/open.ts';
import { inUnits } from '../lib/amounts.ts';
import { html, type Html } from './html.ts';
import { empty, table } from './parts.ts';

/** A page lists so many; all are in the archive. */
const mostListed = 200;

export async function artifactCount(db: Queries, buildId: bigint): Promise<number> {
  return (await sumOf(db, buildId)).count;
}

async function sumOf(db: Queries, buildId: bigint): Promise<{ count: number; bytes: number }> {
  const all = db.selectFrom('artifacts').where('build_id', '=', buildId);
  const sum = all.select((of) => [of.fn.countAll().as('files'), of.fn.sum('size').as('bytes')]);
  const { files, bytes } = await sum.executeTakeFirstOrThrow();
  return { count: Number(files), bytes: Number(bytes) };
}

/** The files that were kept of a build. `address` is the address of the build, which the visitor was admitted to. */
export async function artifactsPart(db: Queries, buildId: bigint, address: string): Promise<Html> {
  const { count, bytes } = await sumOf(db, buildId);
  if (count === 0)
    return html`<section id="artifacts" data-live>
      ${empty('No artifacts', 'A suite says in its settings which files of its builds are kept.')}
    </section>`;
  const ofBuild = db.selectFrom('artifacts').where('build_id', '=', buildId);
  const kept = await ofBuild.select(['id', 'path', 'size']).orderBy('path').limit(mostListed).execute();
  const data = `/ui/data${address}/artifacts`;
  return html`<section id="artifacts" aria-label="Artifacts" data-live>
    <div class="title">
      <p class="aside">${count === 1 ? '1 file' : `${count} files`}, ${inUnits(bytes)}</p>
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
