import type { Call, WithCaller, WithProject } from '../api/call.ts';
import { projectRoute, type Route, type RouteConstructor } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { worthPacking } from '../http/compression.ts';
import { described, wholeNumber } from '../../shared/records/fields.ts';
import { readRange } from '../http/ranges.ts';
import type { Access, StreamAnswer } from '../http/route.ts';
import { serviceLog } from '../lifecycle/build-services.ts';
import { addressOfLog, findLog, readLog } from '../streams/logs.ts';
import { wholeCharacters } from '../streams/tail.ts';
import { logLinesRecord, logRecord, logSearchRecord } from '../../shared/records/log.ts';
import { string } from '../../shared/records/schema.ts';
import { orNotFound } from './common.ts';
import { begun, nothing } from '../../shared/lib/begun.ts';
import { linesOf, linesQuery, matchesOf, searchQuery } from './log-lines.ts';

export interface Logged<Path extends string, Context extends WithCaller> {
  route: RouteConstructor<Context>;
  path: Path;
  param: string;
  access: Access;
  inOrganisation?: Route['inOrganisation'];
  scope: 'commits' | 'build_requests' | 'deploys' | 'dependencies';
  name: string;
  /** Runs before the fields are checked, and refuses records that the caller may not see. */
  load?(this: void, call: never): Promise<object>;
  /** Returns the record's own ID for most kinds of records. */
  findLog(call: { db: Queries; params: object } & Context): Promise<bigint>;
}

interface LoggedInProject<Path extends string> extends Pick<
  Logged<Path, WithProject>,
  'path' | 'param' | 'scope' | 'name'
> {
  table: 'builds' | 'build_requests' | 'deploys' | 'services';
}

export function loggedInProject<const Path extends string>(of: LoggedInProject<Path>): Logged<Path, WithProject> {
  return {
    ...of,
    route: projectRoute,
    access: of.table === 'builds' || of.table === 'services' ? 'public' : 'viewer',
    findLog: (call) => findInProject(call, of),
  };
}

export function shared<Path extends string, Context extends WithCaller>(logged: Logged<Path, Context>) {
  const { access, inOrganisation, scope, load } = logged;
  return { method: 'GET', access, inOrganisation, scope, ...(load && { load }) } as const;
}

const megabyte = 1024 * 1024;
export const largestOffset = 10 ** 15 - 1;
export const offset = () => wholeNumber({ min: 0, max: largestOffset, fallback: 0 });

const logRange = () => ({
  offset: described(offset(), 'The offset of the first byte'),
  limit: described(wholeNumber({ min: 1, max: 4 * megabyte, fallback: megabyte }), 'The most bytes to return'),
});

export function logRoutes<const Path extends string, Context extends WithCaller>(logged: Logged<Path, Context>) {
  const { route, path, name } = logged;
  return [
    route({
      ...shared(logged),
      path: `${path}/log`,
      summary: `Read a part of the log of ${name} as text; offsets and the limit count bytes`,
      query: logRange(),
      answer: logRecord,
      handle: async (call) => textOf(call, await logged.findLog(call), call.query),
    }),
    route({
      ...shared(logged),
      path: `${path}/log/lines`,
      summary: `Read lines of the log of ${name}`,
      query: linesQuery(),
      answer: logLinesRecord,
      handle: async (call) => linesOf(call, await logged.findLog(call), call.query),
    }),
    route({
      ...shared(logged),
      path: `${path}/log/search`,
      summary: `Search the log of ${name} line by line`,
      query: searchQuery(),
      answer: logSearchRecord,
      handle: async (call) => matchesOf(call, await logged.findLog(call), call.query),
    }),
    route({
      ...shared(logged),
      path: `${path}/log.txt`,
      summary: `Read the log of ${name} byte for byte; or a range of it`,
      streams: ['text/plain'],
      hasRanges: true,
      answer: string,
      handle: async (call) => bytesOf(call, await logged.findLog(call)),
    }),
  ];
}

async function findInProject(
  { db, project, params }: { db: Queries; params: object } & WithProject,
  { table, param }: LoggedInProject<string>,
): Promise<bigint> {
  if (table === 'services') return idOfService(db, { project: project.id, params });
  const [record] = await recordsOf[table](db, { project: project.id, id: namedIn(params, param) });
  return orNotFound(record).id;
}

export function namedIn(params: object, param: string): bigint {
  return (params as Record<string, bigint>)[param] ?? 0n;
}

async function idOfService(db: Queries, { project, params }: { project: bigint; params: object }): Promise<bigint> {
  const builds = db.selectFrom('builds').select('services').where('project_id', '=', project);
  const build = orNotFound(await builds.where('id', '=', namedIn(params, 'build_id')).executeTakeFirst());
  return orNotFound(serviceLog(build, (params as { service_name: string }).service_name));
}

const recordsIn =
  (table: Exclude<LoggedInProject<string>['table'], 'services'>) =>
  (db: Queries, { project, id }: { project: bigint; id: bigint }): Promise<{ id: bigint }[]> =>
    db.selectFrom(table).select('id').where('project_id', '=', project).where('id', '=', id).execute();

/** A deploy by a suite has the log of the suite's newest build. */
const logsOfDeploys: ReturnType<typeof recordsIn> = (db, { project, id }) =>
  db
    .selectFrom('deploys')
    .leftJoin('builds', (join) =>
      join.onRef('builds.deploy_id', '=', 'deploys.id').onRef('builds.suite_id', '=', 'deploys.suite_id'),
    )
    .select((of) => of.fn.coalesce('builds.id', 'deploys.id').as('id'))
    .where('deploys.project_id', '=', project)
    .where('deploys.id', '=', id)
    .orderBy('builds.id', 'desc')
    .limit(1)
    .execute();

const recordsOf = {
  builds: recordsIn('builds'),
  build_requests: recordsIn('build_requests'),
  deploys: logsOfDeploys,
};

interface Storage {
  db: Queries;
  blobs: Blobs;
}

const noLog = { size: 0n, complete: 1 };

export async function textOf(storage: Storage, id: bigint, { offset: from, limit }: { offset: number; limit: number }) {
  const { size, complete } = (await findLog(storage.db, id)) ?? noLog;
  const read = (length: number): Promise<Buffer> => rangeOf(storage, id, BigInt(from), size, length);
  let bytes = await read(limit);
  const mayGoOn = (): boolean => !complete || BigInt(from + bytes.length) < size;
  let end = mayGoOn() ? wholeCharacters(bytes) : bytes.length;
  if (end === 0 && bytes.length > 0 && limit < 4) {
    // The limit cuts a character. Without this read, the caller would get an empty response for the same position for
    // ever.
    bytes = await read(4);
    end = mayGoOn() ? wholeCharacters(bytes) : bytes.length;
  }
  const text = bytes.toString('utf8', 0, end);
  return { offset: from, next_offset: from + end, size: Number(size), complete: complete === 1, text };
}

async function rangeOf({ db, blobs }: Storage, id: bigint, from: bigint, size: bigint, length: number) {
  const pieces: Buffer[] = [];
  const to = from + BigInt(length);
  for await (const piece of readLog(db, blobs, id, from, to < size ? to : size)) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Sends the present content. The firehose follows a growing log. */
async function bytesOf(call: Storage & Pick<Call, 'headers'>, id: bigint): Promise<StreamAnswer> {
  const { size, complete } = (await findLog(call.db, id)) ?? noLog;
  const contentType = 'text/plain; charset=utf-8';
  if (isDownload(call.headers)) {
    const location = await addressOfLog(call.db, call.blobs, id);
    const away = { status: 307, headers: { location: location ?? '', 'cache-control': 'no-store' } };
    if (location !== undefined) return { contentType, ...away, body: nothing() };
  }
  const headers = { 'accept-ranges': 'bytes' };
  const read = (from: bigint, to: bigint) => begun(readLog(call.db, call.blobs, id, from, to));
  const range = readRange(call.headers, size);
  if (range === 'unsatisfiable') {
    throw ApiError.ofHttp(416, 'invalid_format', 'range', { 'content-range': `bytes */${size}` });
  }
  if (!range) {
    const length = complete ? { 'content-length': String(size) } : {};
    // Ranges count uncompressed bytes.
    const isWorthPacking = size >= BigInt(worthPacking) && call.headers.range === undefined;
    return { contentType, headers: { ...headers, ...length }, body: await read(0n, size), isWorthPacking };
  }
  const { from, to } = range;
  const part = {
    // The final size is unknown until the log is complete.
    'content-range': `bytes ${from}-${to - 1n}/${complete ? size : '*'}`,
    'content-length': String(to - from),
  };
  return { contentType, status: 206, headers: { ...headers, ...part }, body: await read(from, to) };
}

/**
 * True for browsers that are tested to unpack the whole compressed log. Some others accept the encoding but fail. Calls
 * with credentials are excluded, because a program might send them to the other address.
 */
function isDownload(headers: Call['headers']): boolean {
  const says = (name: string, text: string): boolean => String(headers[name] ?? '').includes(text);
  const isPlain = headers['range'] === undefined && headers['authorization'] === undefined;
  return (
    isPlain && says('sec-fetch-mode', 'navigate') && says('sec-ch-ua', '"Chromium"') && says('accept-encoding', 'zstd')
  );
}
