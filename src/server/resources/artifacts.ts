import { allRows, onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import { piecesOf, type Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { ArtifactRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { pageOf } from '../http/paging.ts';
import { readRange } from '../http/ranges.ts';
import type { Incoming, StreamAnswer } from '../http/route.ts';
import { begun, nothing } from '../../shared/lib/begun.ts';
import { attachmentHeader } from '../../shared/lib/content-disposition.ts';
import { contentTypes } from '../../shared/lib/file-types.ts';
import { zip, zipNames } from '../../shared/lib/zip.ts';
import { artifactRecord } from '../../shared/records/build.ts';
import { listOf, string } from '../../shared/records/schema.ts';
import { findMaker } from './builds.ts';
import { orNotFound, withIdString } from './common.ts';

function view({ id, path, size, sha256, content_type: contentType }: ArtifactRow) {
  return { ...withIdString('id', id), path, size: Number(size), sha256, content_type: contentType };
}

const ofBuild = '/projects/:project_id/builds/:build_id';

export const routes = [
  projectRoute({
    method: 'GET',
    path: `${ofBuild}/artifacts`,
    access: 'public',
    scope: 'commits',
    summary: 'List the artifacts of a build',
    paged: true,
    answer: listOf(artifactRecord),
    async handle(call) {
      const kept = call.db
        .selectFrom('artifacts')
        .selectAll()
        .where('build_id', '=', await findMaker(call));
      const rows = await onPage(kept, 'id', call.page).execute();
      return pageOf(call.page, rows.map(view));
    },
  }),
  projectRoute({
    method: 'GET',
    path: `${ofBuild}/artifacts/:artifact_id`,
    access: 'public',
    scope: 'commits',
    summary: 'Download an artifact of a build, or a range of it',
    streams: contentTypes,
    hasRanges: true,
    hasTag: true,
    answer: string,
    async handle(call) {
      const build = await findMaker(call);
      const kept = call.db.selectFrom('artifacts').selectAll().where('build_id', '=', build);
      return fileOf(call, orNotFound(await kept.where('id', '=', call.params.artifact_id).executeTakeFirst()));
    },
  }),
  projectRoute({
    method: 'GET',
    path: `${ofBuild}/artifacts.zip`,
    access: 'public',
    scope: 'commits',
    summary: 'Download all artifacts of a build as a ZIP archive',
    streams: ['application/zip'],
    answer: string,
    async handle(call) {
      const build = await findMaker(call);
      return archiveOf(call, build);
    },
  }),
];

interface Storage {
  db: Queries;
  blobs: Blobs;
}

/** How a file's bytes are sent. */
export interface Sending {
  contentType: string;
  headers: Record<string, string>;
}

/** Browsers should save the untrusted bytes. If a browser shows them anyway, they run no code and belong to no site. */
function asDownload(fileName: string): Record<string, string> {
  return {
    'content-disposition': attachmentHeader(fileName),
    'content-security-policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'private, no-cache',
  };
}

type FileAnswer = Extract<StreamAnswer, { body: unknown }>;

export async function fileOf(
  { blobs, headers }: Pick<Storage, 'blobs'> & Pick<Incoming, 'headers'>,
  row: Pick<ArtifactRow, 'path' | 'size' | 'sha256' | 'content_type'>,
  { contentType, headers: sent }: Sending = {
    contentType: row.content_type,
    headers: asDownload(row.path.split('/').at(-1) ?? ''),
  },
): Promise<FileAnswer> {
  const { size, sha256 } = row;
  const etag = `"${sha256}"`;
  const answered = { ...sent, 'accept-ranges': 'bytes', etag };
  if (headers['if-match'] !== undefined && !names(headers['if-match'], etag, 'strong'))
    throw ApiError.ofHttp(412, 'invalid_format', 'if-match');
  if (names(headers['if-none-match'], etag)) return { contentType, status: 304, headers: answered, body: nothing() };
  // If the client has another version, it gets the whole file and no range.
  const { 'if-range': ifRange, ...others } = headers;
  const range = ifRange === undefined || ifRange === etag ? readRange(others, size) : undefined;
  if (range === 'unsatisfiable')
    throw ApiError.ofHttp(416, 'invalid_format', 'range', { 'content-range': `bytes */${size}` });
  const { from, to } = range ?? { from: 0n, to: size };
  const part = range ? { 'content-range': `bytes ${from}-${to - 1n}/${size}` } : {};
  return {
    contentType,
    status: range ? 206 : 200,
    headers: { ...answered, ...part, 'content-length': String(to - from) },
    body: await begun(bytesOf(blobs, sha256, Number(from), Number(to))),
  };
}

function names(header: string | string[] | undefined, etag: string, comparison: 'strong' | 'weak' = 'weak'): boolean {
  const named = String(header ?? '').split(',');
  return named.some((one) => [etag, '*', ...(comparison === 'weak' ? [`W/${etag}`] : [])].includes(one.trim()));
}

async function archiveOf({ db, blobs }: Storage, build: bigint): Promise<StreamAnswer> {
  const rows = await allRows(db.selectFrom('artifacts').selectAll().where('build_id', '=', build), 'id');
  const paths = await zipNames(rows.map(({ path }) => path));
  const entries = rows.map((row, at) => ({
    name: paths[at] ?? '',
    size: Number(row.size),
    modifiedAt: new Date(Number(row.created_at)),
    sha256: row.sha256,
  }));
  const { length, content } = zip(entries, ({ sha256, size }) => bytesOf(blobs, sha256, 0, size));
  return {
    contentType: 'application/zip',
    headers: { ...asDownload(`artifacts-${build}.zip`), 'content-length': String(length) },
    body: content,
  };
}

async function* bytesOf(blobs: Blobs, digest: string, from: number, to: number): AsyncGenerator<Buffer> {
  await using blob = await blobs.open(digest);
  yield* piecesOf(blob, from, to);
}
