import type { IncomingMessage, ServerResponse } from 'node:http';
import { pipeline, Readable } from 'node:stream';
import type { InnerCalls } from '../api/inner-calls.ts';
import { anonymous, callerInBrowser } from '../auth/callers.ts';
import { findUserById } from '../auth/users.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Database } from '../db/open.ts';
import type { OtherHost } from '../http/server.ts';
import type { ArtifactAddresses, ArtifactRequest } from '../auth/artifact-addresses.ts';
import { ApiError } from '../../shared/errors.ts';
import { attachmentHeader } from '../../shared/lib/content-disposition.ts';
import { siteTypeOf } from '../../shared/lib/file-types.ts';
import { fileOf } from './artifacts.ts';

/**
 * The host name of artifacts: files of builds at signed addresses, and nothing else. It reads no cookie and no
 * credentials. Scripts of a report may run, but the policy gives each document an origin of its own, so they have no
 * storage, no cookies, no service worker, and no access to another report.
 */

interface HostServices {
  addresses: ArtifactAddresses;
  calls: Pick<InnerCalls, 'admit'>;
  db: Database;
  blobs: Blobs;
  headers: Readonly<Record<string, string>>;
  translate: (error: unknown) => ApiError | undefined;
  onAnswered: (status: number, milliseconds: number) => void;
  onTrouble: (error: unknown) => void;
}

const restrictions = {
  'content-security-policy': 'sandbox allow-scripts',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer', // the address is a secret
} as const;

/** Fonts, modules and `fetch` of a report are calls from another origin, because its own is opaque. */
const readable = { 'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin' } as const;

interface HostAnswer {
  status: number;
  headers: Record<string, string>;
  body?: AsyncIterable<string | Uint8Array>;
  text?: string;
}

const refusal = (status: number, text: string, headers: Record<string, string> = {}): HostAnswer => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', ...headers },
  text: `${text}\n`,
});

const nothingHere = refusal(404, 'There is nothing here.');
const expired = refusal(410, 'This address is no longer valid. Open the artifact again on the page of its build.');
const onlyReading = refusal(405, 'Artifacts can only be read.', { allow: 'GET, HEAD' });
const noWorker = refusal(403, 'Artifacts cannot be service workers.');
const notNow = refusal(503, 'The artifact cannot be read now. Try again in a while.');
const broken = refusal(500, 'Something went wrong here.');

export function artifactHost(services: HostServices): OtherHost {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const startedAt = performance.now();
    const { status, headers, body, text } = await answerTo(request, services).catch((error: unknown) => {
      const known = error instanceof ApiError ? error : services.translate(error);
      if (!known) services.onTrouble(error);
      if (known && [412, 416].includes(known.status)) return refusal(known.status, 'No such part.', known.headers);
      return known?.status === 503 ? notNow : known ? nothingHere : broken;
    });
    request.resume(); // an unwanted body
    services.onAnswered(status, performance.now() - startedAt);
    response.writeHead(status, { ...services.headers, ...restrictions, ...headers });
    if (request.method === 'HEAD' || body === undefined) {
      response.end(request.method === 'HEAD' ? undefined : text);
      for await (const _ of body ?? []) break; // closes the file
      return;
    }
    pipeline(Readable.from(body, { objectMode: false, highWaterMark: 64 * 1024 }), response, (error) => {
      const hasLeft = error?.code === 'ERR_STREAM_PREMATURE_CLOSE';
      if (error && !hasLeft && !(error instanceof ApiError)) services.onTrouble(error);
    });
  };
  return {
    isFor: (request) => hostsOf(request).some((host) => services.addresses.isOwnHost(host)),
    answer: (request, response) => void answer(request, response).catch(() => response.destroy()),
  };
}

/** Every name that a request gives for its host: a proxy may have chosen by another one than a browser. */
function hostsOf({ headers, url = '' }: IncomingMessage): string[] {
  const { host, ':authority': authority } = headers; // the second is for HTTP/2
  const [, named] = absolute.exec(url) ?? [];
  return [host, authority, named].filter((one) => typeof one === 'string');
}

const absolute = /^https?:\/\/([^/?#]*)/i;

async function answerTo({ method, url = '/', headers }: IncomingMessage, services: HostServices): Promise<HostAnswer> {
  if (method !== 'GET' && method !== 'HEAD') return onlyReading;
  if (headers['service-worker'] !== undefined || headers['sec-fetch-dest'] === 'serviceworker') return noWorker;
  const [path = ''] = url.replace(absolute, '').split(/[?#]/, 1);
  const wanted = services.addresses.read(path);
  if (wanted === undefined) return nothingHere;
  if (wanted === 'expired') return expired;
  const admit = () => admitReader(wanted, services);
  await admit();
  const found = await findFile(wanted, services.db);
  if (!found) return nothingHere;
  if (typeof found === 'string') return refusal(302, 'It is a folder.', { location: found });
  const contentType = siteTypeOf(found.path);
  const {
    status = 200,
    headers: sent,
    body,
  } = await fileOf({ blobs: services.blobs, headers }, found, {
    contentType,
    headers: {
      ...readable,
      'cache-control': 'private, no-cache',
      ...(contentType === unknown && { 'content-disposition': attachmentHeader(found.path.split('/').at(-1) ?? '') }),
    },
  });
  return { status, headers: { 'content-type': contentType, ...sent }, body: whileAdmitted(body, admit) };
}

const unknown = 'application/octet-stream';

/** The address is valid only while the account that opened the page may read the build. */
async function admitReader({ account, project, build }: ArtifactRequest, services: HostServices): Promise<void> {
  const user = account === 0n ? undefined : await findUserById(services.db.read, account);
  const caller = account === 0n ? anonymous : user && callerInBrowser(user);
  if (!caller) throw new ApiError('not_found');
  const params = { project_id: String(project), build_id: String(build) };
  await services.calls.admit('GET /projects/:project_id/builds/:build_id/artifacts', caller, params);
}

/** The file, or the address of the folder with this name. */
async function findFile({ build, path, ticket }: ArtifactRequest, { read }: Database) {
  const index = `${path === '' || path.endsWith('/') ? path : `${path}/`}index.html`;
  const rows = await read
    .selectFrom('artifacts')
    .selectAll()
    .where('build_id', '=', build)
    .where('path', 'in', [path, index])
    .execute();
  const file = rows.find((row) => row.path === path) ?? rows[0];
  if (!file || file.path === path || path === '' || path.endsWith('/')) return file;
  return `/${ticket}/${path.split('/').map(encodeURIComponent).join('/')}/`;
}

const checkedMs = 15_000;

/** A long download ends when its reader loses the right to it. */
async function* whileAdmitted<Piece>(pieces: AsyncIterable<Piece>, admit: () => Promise<void>): AsyncGenerator<Piece> {
  let checkedAt = performance.now();
  for await (const piece of pieces) {
    if (performance.now() - checkedAt >= checkedMs) {
      await admit();
      checkedAt = performance.now();
    }
    yield piece;
  }
}
