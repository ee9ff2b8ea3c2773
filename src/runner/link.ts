import type { ClientRequest, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { WebSocket, type ClientOptions } from 'ws';
import { http } from '../lib/http.ts';
import {
  claimSeconds,
  connectionPath,
  DrainedError,
  protocolHeader,
  protocolVersion,
  version,
} from '../protocol/index.ts';
import type { Demand, Link } from '../protocol/index.ts';
import { blobCalls } from './blob-calls.ts';
import { connectionOptions, ServerConnection } from './connection.ts';
import { inWords } from './failures.ts';

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
  /** When the server was last heard of, by the process's own clock. */
  heardAt(): number;
  close(): void;
}

export interface LinkOptions {
  /** Hears what an operator should know. */
  note?: (message: string) => void;
  /** Speaks another version of the protocol. */
  protocol?: number;
}

/** A server that does not answer by then could not be told in time over this connection that a claim is still held. */
const extendMs = (2 * claimSeconds * 1000) / 3;

/** The runner's link to the server: one connection, and HTTP for blobs. A call that fails throws, and may be repeated. */
export function openLink(place: ServerPlace, options: LinkOptions = {}): OpenLink {
  const { note = () => {}, protocol = protocolVersion } = options;
  const isLocal = 'socket' in place;
  const agent = isLocal ? new http.Agent({ keepAlive: true }) : new HttpsAgent({ keepAlive: true, ca: place.ca });
  const send = isLocal ? http.request : httpsRequest;
  const target: RequestOptions = isLocal ? { socketPath: place.socket } : addressOf(place.url);
  const headers = {
    [protocolHeader]: String(protocol),
    'headrace-version': version,
    ...(place.tags ? { 'headrace-tags': place.tags } : {}),
    ...(place.places === undefined ? {} : { 'headrace-places': String(place.places) }),
    ...(isLocal ? {} : { authorization: `Bearer ${place.token}` }),
  };
  const open = (options: RequestOptions): ClientRequest =>
    send({ ...target, agent, ...options, path: `${target.path ?? ''}${options.path}` });
  const address = isLocal ? 'ws://localhost' : place.url.replace(/\/+$/, '');
  const way: ClientOptions & ConnectionOptions = isLocal
    ? { createConnection: () => connect(place.socket) }
    : { ...(place.ca === undefined ? {} : { ca: place.ca }), ALPNProtocols: ['http/1.1'] };
  const server = new ServerConnection({
    open: () => new WebSocket(`${address}${connectionPath}`, { ...connectionOptions, headers, ...way }),
    inWords: (error) => inWords(error, target),
  });

  return {
    async next(wish, signal) {
      const { order, end } = await server.call('next', wish, signal);
      if (end) throw new DrainedError();
      return order ?? undefined;
    },
    async leave(claims, signal) {
      await server.call('leave', { claims }, signal);
    },
    demand: (signal) => server.call('demand', {}, signal),
    log: (chunk, signal) => server.call('log', chunk, signal),
    tests: (batch, signal) => server.call('tests', batch, signal),
    extend: async (claims, signal) => (await server.callWithin(extendMs, 'extend', { claims }, signal)).signals,
    finish: (report, signal) => server.call('finish', report, signal),
    uploaded: (report, signal) => server.call('uploaded', report, signal),
    key: async (claim, signal) => (await server.call('key', { claim }, signal)).privateKey,
    registry: async (claim, signal) => (await server.call('registry', { claim }, signal)).registry,
    looks: async (room, signal) => (await server.call('looks', { room }, signal)).looks,
    async looked(reports, signal) {
      await server.call('looked', { reports }, signal);
    },
    gone: async (projects, signal) => (await server.call('gone', { projects }, signal)).gone,
    stale: async (layers, signal) => (await server.call('stale', { layers }, signal)).stale,
    shells: async (asking, signal) => (await server.call('shells', asking, signal)).shells,
    async shellInput(shell, from, signal) {
      const { bytes } = await server.call('shellInput', { shell, from }, signal);
      return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    },
    async shellOutput(shell, piece, signal) {
      const { at } = await server.call('shellOutput', { shell, ...piece }, signal);
      return at === undefined ? undefined : { at };
    },
    async shellEnd(shell, reason, signal) {
      await server.call('shellEnd', { shell, reason }, signal);
    },
    ...blobCalls(
      (method, path, more, signal) => open({ method, path, signal, headers: { ...headers, ...more } }),
      note,
    ),
    heardAt: () => server.heardAt,
    close() {
      server.close();
      agent.destroy();
    },
  };
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
