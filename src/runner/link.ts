import type { ClientRequest, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { http } from '../lib/http.ts';
import { DrainedError, protocolNumber as ownProtocol, version as ownVersion } from '../protocol/index.ts';
import type {
  Demand,
  Finished,
  KeptLayer,
  Link,
  LookOrder,
  Order,
  OrderOrLooks,
  Receipt,
  RegistryAccess,
  ShellOrder,
  ClaimSignal,
  TestReceipt,
} from '../protocol/index.ts';
import { blobCalls } from './blob-calls.ts';
import { failureOf, inWords, otherVersion } from './failures.ts';

/** The server's address: a Unix socket on this machine, or a URL with its token. */
export type ServerPlace = ({ socket: string } | { url: string; token: string; ca?: string | undefined }) & {
  /** The runner's tags, as one text. */
  tags?: string;
  /** How many places for builds it has. */
  places?: number;
};

export interface OpenLink extends Link {
  /** How many runners such as this one are needed. */
  demand(signal: AbortSignal): Promise<Demand>;
  close(): void;
}

/** The runner's connection to the server. A call that fails throws, and may be repeated. */
export function openLink(
  place: ServerPlace,
  protocol: string = ownProtocol,
  note: (message: string) => void = () => {},
): OpenLink {
  const isLocal = 'socket' in place;
  const agent = isLocal ? new http.Agent({ keepAlive: true }) : new HttpsAgent({ keepAlive: true, ca: place.ca });
  const send = isLocal ? http.request : httpsRequest;
  const target: RequestOptions = isLocal ? { socketPath: place.socket } : addressOf(place.url);
  const headers = {
    'headrace-version': ownVersion,
    'headrace-protocol': protocol,
    ...(place.tags ? { 'headrace-tags': place.tags } : {}),
    ...(place.places === undefined ? {} : { 'headrace-places': String(place.places) }),
    ...(isLocal ? {} : { authorization: `Bearer ${place.token}` }),
  };
  const open = (options: RequestOptions): ClientRequest =>
    send({ ...target, agent, ...options, path: `${target.path ?? ''}${options.path}` });

  const post = async (
    path: string,
    type: string,
    body: string | Uint8Array,
    more: Record<string, string>,
    signal: AbortSignal,
  ) => {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const length = { 'content-type': type, 'content-length': String(Buffer.byteLength(body)) };
    const request = open({ method: 'POST', path, signal, headers: { ...headers, ...length, ...more } });
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const { 'headrace-version': theirs, 'headrace-protocol': theirProtocol } = response.headers;
        if (theirProtocol !== undefined && theirProtocol !== protocol) reject(otherVersion(String(theirs)));
        else if (response.statusCode === 200) answered(text).then(resolve, reject);
        else reject(failureOf(path, response.statusCode, text));
      });
    });
    request.on('error', (error) => reject(inWords(error, target)));
    request.end(body);
    return promise;
  };
  const postJson = (path: string, body: unknown, signal: AbortSignal): Promise<unknown> =>
    post(path, 'application/json', JSON.stringify(body), {}, signal);

  return {
    async next(claim, signal, holdMs, place) {
      const answer = await postJson('/runner/next', { claim, holdMs, place }, signal);
      const { order, end } = answer as { order: Order | null; end?: boolean };
      if (end) throw new DrainedError();
      return order ?? undefined;
    },
    async nextOrLooks(wanted, signal) {
      const { end, ...answer } = (await postJson('/runner/next', wanted, signal)) as OrderOrLooks & { end?: boolean };
      if (end) throw new DrainedError();
      return answer;
    },
    async leave(claims, signal) {
      await postJson('/runner/leave', { claims }, signal);
    },
    async demand(signal) {
      return (await postJson('/runner/demand', {}, signal)) as Demand;
    },
    async log({ claim, offset, bytes }, signal) {
      const place = { 'headrace-claim': claim, 'headrace-offset': String(offset) };
      return (await post('/runner/log', 'application/octet-stream', bytes, place, signal)) as Receipt;
    },
    async tests(batch, signal) {
      return (await postJson('/runner/tests', batch, signal)) as TestReceipt;
    },
    async extend(claims, signal) {
      const { words } = (await postJson('/runner/extend', { claims }, signal)) as {
        words: Record<string, ClaimSignal>;
      };
      return words;
    },
    async finish(report, signal) {
      return (await postJson('/runner/finish', report, signal)) as Finished;
    },
    async uploaded(report, signal) {
      return (await postJson('/runner/uploaded', report, signal)) as Receipt;
    },
    async key(claim, signal) {
      return ((await postJson('/runner/key', { claim }, signal)) as { privateKey?: string }).privateKey;
    },
    async registry(claim, signal) {
      const { registry } = (await postJson('/runner/registry', { claim }, signal)) as { registry?: RegistryAccess };
      return registry;
    },
    async looks(room, signal) {
      return ((await postJson('/runner/looks', { room }, signal)) as { looks: LookOrder[] }).looks;
    },
    async looked(reports, signal) {
      await postJson('/runner/looked', { reports }, signal);
    },
    async gone(projects, signal) {
      return ((await postJson('/runner/gone', { projects }, signal)) as { gone: string[] }).gone;
    },
    async stale(layers, signal) {
      return ((await postJson('/runner/stale', { layers }, signal)) as { stale: KeptLayer[] }).stale;
    },
    async shells(asking, signal) {
      return ((await postJson('/runner/shells', asking, signal)) as { shells: ShellOrder[] }).shells;
    },
    async shellInput(id, from, signal) {
      const answer = (await postJson('/runner/shell/input', { id, from }, signal)) as { bytes?: string };
      return answer.bytes === undefined ? undefined : Buffer.from(answer.bytes, 'base64');
    },
    async shellOutput(id, { offset, bytes }, signal) {
      const message = { id, offset, bytes: bytes.toString('base64') };
      const answer = (await postJson('/runner/shell/output', message, signal)) as { at?: number | null };
      return answer.at === undefined ? undefined : { at: answer.at };
    },
    async shellEnd(id, reason, signal) {
      await postJson('/runner/shell/end', { id, reason }, signal);
    },
    ...blobCalls(
      (method, path, more, signal) => open({ method, path, signal, headers: { ...headers, ...more } }),
      note,
    ),
    close: () => agent.destroy(),
  };
}

/** Another program than our server may have answered: the call has failed, but the runner goes on. */
async function answered(text: string): Promise<unknown> {
  return JSON.parse(text) as unknown;
}

function addressOf(url: string): RequestOptions {
  const { hostname, port, pathname, protocol } = new URL(url);
  if (protocol !== 'https:') throw new Error(`a server elsewhere is reached over https, not ${protocol}//`);
  return {
    hostname: hostname.replaceAll(/[[\]]/g, ''),
    port: port === '' ? 443 : Number(port),
    path: pathname.replace(/\/$/, ''),
  };
}
