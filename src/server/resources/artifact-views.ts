import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { ArtifactRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { flag, wholeNumber } from '../../shared/records/fields.ts';
import { artifactSiteRecord, artifactViewRecord } from '../../shared/records/artifact-view.ts';
import { listOf, string } from '../../shared/records/schema.ts';
import { fileOf } from './artifacts.ts';
import { contentOf, headBytes, linesIn, mostLines, testsIn, type Content } from './artifact-content.ts';
import { findMaker } from './builds.ts';
import { orNotFound, withIdString } from './common.ts';

/** Routes below `/ui/data` and for our pages. They show artifacts instead of sending them as downloads. */

const ofBuild = '/projects/:project_id/builds/:build_id';
const common = { method: 'GET', access: 'public', scope: 'commits' } as const;
const mostSites = 20;

const rowsOf = (db: Queries, build: bigint) => db.selectFrom('artifacts').selectAll().where('build_id', '=', build);

async function findArtifact(db: Queries, build: bigint, id: bigint): Promise<ArtifactRow> {
  return orNotFound(await rowsOf(db, build).where('id', '=', id).executeTakeFirst());
}

/**
 * On our own origin nothing runs scripts, and a document has an origin of its own. Viewers of PDF refuse to work in a
 * sandbox. They run a file's scripts, if at all, apart from every site.
 */
function policyFor({ kind }: Content): string {
  const rest = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'";
  return kind === 'pdf' ? `${rest}; object-src 'self'` : `${rest}; img-src data:; font-src data:; sandbox`;
}

export const artifactViewRoutes = [
  projectRoute({
    ...common,
    path: `${ofBuild}/artifacts/:artifact_id/view`,
    summary: 'Shows an artifact',
    query: {
      from: wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER, fallback: 1 }),
      /** Shows a page, a drawing or a report as text. */
      source: flag(),
    },
    answer: artifactViewRecord,
    async handle(call) {
      const { db, blobs, params, query, project, caller } = call;
      const row = await findArtifact(db, await findMaker(call), params.artifact_id);
      await using blob = await blobs.open(row.sha256);
      const content = contentOf(row.path, await blob.read(0, headBytes));
      const isSource = query.source && content.kind !== 'other';
      const kind = isSource ? 'text' : content.kind;
      const reader = { project: project.id, build: row.build_id, account: caller.id };
      return {
        ...withIdString('id', row.id),
        path: row.path,
        size: Number(row.size),
        kind,
        address: kind === 'page' ? (call.artifactAddresses?.sign(reader, row.path) ?? '') : '',
        text: kind === 'text' ? await linesIn(blob, { from: query.from, limit: mostLines }) : null,
        tests: kind === 'tests' ? await testsIn(blob) : null,
      };
    },
  }),
  projectRoute({
    ...common,
    path: `${ofBuild}/artifacts/:artifact_id/content`,
    summary: 'Sends a picture, a PDF or a page for a browser to show',
    streams: ['application/pdf', 'text/html'],
    hasRanges: true,
    hasTag: true,
    answer: string,
    async handle(call) {
      const row = await findArtifact(call.db, await findMaker(call), call.params.artifact_id);
      await using blob = await call.blobs.open(row.sha256);
      const content = contentOf(row.path, await blob.read(0, headBytes));
      // A page of a build is only for the frame: alone, its address would be ours.
      const isAlone = content.kind === 'page' && call.headers['sec-fetch-dest'] === 'document';
      if (isAlone || !['picture', 'pdf', 'page'].includes(content.kind)) throw new ApiError('not_found');
      return await fileOf(call, row, {
        contentType: content.type,
        headers: {
          'content-security-policy': policyFor(content),
          'x-frame-options': 'SAMEORIGIN',
          'cross-origin-resource-policy': 'same-origin',
          'cache-control': 'private, no-cache',
        },
      });
    },
  }),
  projectRoute({
    ...common,
    path: `${ofBuild}/artifacts/sites`,
    summary: 'Lists folders that open as a site',
    answer: listOf(artifactSiteRecord),
    async handle(call) {
      const build = await findMaker(call);
      const index = rowsOf(call.db, build).where((of) =>
        of.or([of('path', '=', indexFile), of('path', 'like', `%/${indexFile}`)]),
      );
      const paths = (await index.execute())
        .filter(({ path }) => path === indexFile || path.endsWith(`/${indexFile}`)) // SQLite ignores case
        .map(({ id, path }) => ({ ...withIdString('id', id), path: path.slice(0, -indexFile.length) }))
        .toSorted((a, b) => a.path.length - b.path.length || (a.path < b.path ? -1 : 1));
      // A folder inside a site is a part of it.
      const outer: typeof paths = [];
      for (const one of paths) {
        if (outer.length === mostSites) break;
        if (!outer.some(({ path }) => one.path.startsWith(path))) outer.push(one);
      }
      return outer;
    },
  }),
];

const indexFile = 'index.html';
