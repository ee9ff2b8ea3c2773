import type { ClientRequest, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { WebSocket, type ClientOptions } from 'ws';
import { http } from '../lib/http.ts';
import { callNames, claimSeconds, connectionPath, protocolHeader, protocolNumber, version } from '../protocol/index.ts';
import type { BlobLink, LinkCalls } from '../protocol/index.ts';
import { blobCalls } from './blob-calls.ts';
import { connectionOptions, ServerConnection } from './connection.ts';
import { explainUnreachable } from './failures.ts';

/** The server's address: a Unix socket on this machine, or a URL with its token. */
export type ServerAddress = ({ socket: string } | { url: string; token: string; ca?: string | undefined }) & {
  /** The runner's tags, as one text. */
  tags?: string;
  /** How many slots for builds it has. */
  slots?: number;
};

export interface OpenLink extends LinkCalls, BlobLink {
  /** When the server was last heard of, by the process's own clock. */
  heardAt(): number;
  close(): void;
}

export interface LinkOptions {
  /** Hears what an operator should know. */
  note?: (message: string) => void;
  /** Speaks another version of the protocol. */
  protocol?: string;
}

/** A server that does not answer by then could not be told in time over this connection that a claim is still held. */
const extendMs = (2 * claimSeconds * 1000) / 3;

/** The runner's link to the server: one connection, and HTTP for blobs. A call that fails throws, and may be repeated. */
export function openLink(server: ServerAddress, options: LinkOptions = {}): OpenLink {
  const { note = () => {}, protocol = protocolNumber } = options;
  const isLocal = 'socket' in server;
  const agent = isLocal ? new http.Agent({ keepAlive: true }) : new HttpsAgent({ keepAlive: true, ca: server.ca });
  const send = isLocal ? http.request : httpsRequest;
  const target: RequestOptions = isLocal ? { socketPath: server.socket } : addressOf(server.url);
  const headers = {
    [protocolHeader]: protocol,
    'headrace-version': version,
    ...(server.tags ? { 'headrace-tags': server.tags } : {}),
    ...(server.slots === undefined ? {} : { 'headrace-slots': String(server.slots) }),
    ...(isLocal ? {} : { authorization: `Bearer ${server.token}` }),
  };
  const open = (options: RequestOptions): ClientRequest =>
    send({ ...target, agent, ...options, path: `${target.path ?? ''}${options.path}` });
  const address = isLocal ? 'ws://localhost' : server.url.replace(/\/+$/, '');
  const way: ClientOptions & ConnectionOptions = isLocal
    ? { createConnection: () => connect(server.socket) }
    : { ...(server.ca === undefined ? {} : { ca: server.ca }), ALPNProtocols: ['http/1.1'] };
  const connection = new ServerConnection({
    open: () => new WebSocket(`${address}${connectionPath}`, { ...connectionOptions, headers, ...way }),
    explainUnreachable: (error) => explainUnreachable(error, target),
  });

  const called = callNames.map((name) => [
    name,
    (says: never, signal: AbortSignal) => connection.call(name, says, signal),
  ]);
  return {
    ...(Object.fromEntries(called) as LinkCalls),
    extend: (says, signal) => connection.callWithin(extendMs, 'extend', says, signal),
    ...blobCalls(
      (method, path, more, signal) => open({ method, path, signal, headers: { ...headers, ...more } }),
      note,
    ),
    heardAt: () => connection.heardAt,
    close() {
      connection.close();
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
