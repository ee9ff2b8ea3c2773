import type { ClientRequest, RequestOptions } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { WebSocket, type ClientOptions } from 'ws';
import { http } from '../shared/lib/http.ts';
import {
  callNames,
  claimSeconds,
  connectionPath,
  protocolHeader,
  protocolNumber,
  shellPath,
  version,
} from '../shared/protocol/index.ts';
import type { BlobLink, LinkCalls, ShellLink } from '../shared/protocol/index.ts';
import { blobCalls } from './blob-calls.ts';
import { connectionOptions, ServerConnection } from './connection.ts';
import { explainUnreachable } from './failures.ts';

/** A Unix socket on this machine, or a URL with its token. */
export type ServerAddress = ({ socket: string } | { url: string; token: string; ca?: string | undefined }) & {
  /** All tags as one text. */
  tags?: string;
  /** Slots for builds. */
  slots?: number;
};

export interface OpenLink extends LinkCalls, BlobLink, ShellLink {
  /** The time of the server's last message, by `performance.now()`. */
  lastMessageAt(): number;
  close(): void;
}

export interface LinkOptions {
  note?: (message: string) => void;
  onConnected?: (isConnected: boolean) => void;
  /** Another version of the protocol, for tests. */
  protocol?: string;
}

/** If an extension takes longer, a new connection is needed, or the claims would expire meanwhile. */
const extendMs = (2 * claimSeconds * 1000) / 3;

/**
 * Masks protect proxies from a client's bytes (RFC 6455, section 10.3). There is no proxy on a Unix socket, and masks
 * would cost more time than all other work on a log.
 */
const withoutMask = (mask: Buffer): void => void mask.fill(0);

/** One connection for calls, and HTTP for blobs. A failed call throws, and may be repeated. */
export function openLink(server: ServerAddress, options: LinkOptions = {}): OpenLink {
  const { note = () => {}, onConnected = () => {}, protocol = protocolNumber } = options;
  const isLocal = 'socket' in server;
  const agent = isLocal
    ? new http.Agent({ keepAlive: true })
    : new HttpsAgent({ keepAlive: true, ca: server.ca, rejectUnauthorized: true });
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
  const transport: ClientOptions & ConnectionOptions = isLocal
    ? { createConnection: () => connect(server.socket), generateMask: withoutMask }
    : { ...(server.ca === undefined ? {} : { ca: server.ca }), ALPNProtocols: ['http/1.1'], rejectUnauthorized: true };
  const socket = (path: string): WebSocket =>
    new WebSocket(`${address}${path}`, { ...connectionOptions, headers, ...transport });
  const connection = new ServerConnection({
    open: () => socket(connectionPath),
    explainUnreachable: (error) => explainUnreachable(error, target),
    onConnected,
  });

  const called = callNames.map((name) => [
    name,
    (message: never, signal: AbortSignal) => connection.call(name, message, signal),
  ]);
  return {
    ...(Object.fromEntries(called) as LinkCalls),
    shell: (id) => socket(`${shellPath}${id}`),
    extend: (message, signal) => connection.callWithin(extendMs, 'extend', message, signal),
    ...blobCalls(
      (method, path, more, signal) => open({ method, path, signal, headers: { ...headers, ...more } }),
      note,
    ),
    lastMessageAt: () => connection.lastMessageAt,
    close() {
      connection.close();
      agent.destroy();
    },
  };
}

function addressOf(url: string): RequestOptions {
  const { hostname, port, pathname, protocol } = new URL(url);
  if (protocol !== 'https:') throw new Error(`use https to reach a server on another machine, not ${protocol}//`);
  return {
    hostname: hostname.replaceAll(/[[\]]/g, ''),
    port: port === '' ? 443 : Number(port),
    path: pathname.replace(/\/$/, ''),
  };
}
