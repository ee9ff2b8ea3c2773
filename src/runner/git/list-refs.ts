import { digestOf, writeListing, type Refs } from '../../lib/ref-listings.ts';
import type { Slots } from '../../lib/slots.ts';
import type { Connections } from './connections.ts';
import { FetchError, recognize } from './failures.ts';
import { ChannelLostError, runThrough } from './master-channel.ts';
import { reason, sourceOf, type Source, type SourceRequest } from './obtain.ts';
import { DeclinedError, RefReader, UnreadableError } from './ref-reader.ts';
import { quoted } from './ssh-channel.ts';

/*
 * Lists the branches and tags of a repository as cheaply as possible: without git, sandbox or process, over a
 * connection that stays open until the next poll. Nothing is fetched, and only the reader of names (ref-reader.ts) sees
 * the host's data.
 */

export interface ListRequest extends Omit<SourceRequest, 'say' | 'privateKey'> {
  privateKey: string;
  /** The digest of the known listing. */
  digest: string | null;
  timeoutMs: number;
  /** How long the connection is kept for the next poll. */
  keepMs: number;
}

/** `listing` is missing where it equals the known one. */
export interface Listed {
  listing?: string;
}

export interface ListServices {
  connections: Connections;
  /** Limits the polls of one host at the same time. */
  asking: Slots;
  /** Limits the connections that are being opened to one host: an sshd refuses too many. */
  connecting: Slots;
  /** This many stay open; further ones are closed after each poll. */
  mostOpen: number;
}

const longestSaid = 2000;

export async function listRefs(services: ListServices, request: ListRequest): Promise<Listed> {
  const heard: string[] = [];
  const source = sourceOf({ ...request, say: (text) => void heard.push(text.toString()) });
  const done = await services.asking.take(source.address.host, request.signal);
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(reason(source, 'host_unreachable')), request.timeoutMs);
  const signal = AbortSignal.any([request.signal, late.signal]);
  try {
    const listing = writeListing(await ask(services, { ...source, signal, privateKey: request.privateKey }, request));
    return digestOf(listing) === request.digest ? {} : { listing };
  } catch (error) {
    if (!(error instanceof FetchError)) throw error;
    const said = heard.join('').trim().slice(-longestSaid);
    throw new FetchError(error.kind, said === '' ? error.message : `${said}\n${error.message}`);
  } finally {
    clearTimeout(timer);
    done();
  }
}

type Reached = Source & { privateKey: string };

async function ask(services: ListServices, source: Reached, { keepMs }: ListRequest): Promise<Refs> {
  const { connections, connecting, mostOpen } = services;
  const { address, signal } = source;
  const isOpen = connections.isOpen(source);
  const release = isOpen ? undefined : await connecting.take(address.host, signal);
  const isKept = isOpen || connections.count() < mostOpen;
  try {
    return await connections.use({ ...source, keepMs: isKept ? keepMs : 0 }, async (_, socket) => {
      release?.(); // it is connected; the wait for its answer need not block others
      return converse(source, socket);
    });
  } finally {
    release?.();
  }
}

async function converse(source: Reached, socket: string): Promise<Refs> {
  const { address, narrator, signal } = source;
  const reader = new RefReader();
  const command = `git-upload-pack ${quoted(address.path)}`;
  const order = { socket, command, environment: { GIT_PROTOCOL: 'version=2' }, signal };
  try {
    const { said } = await runThrough(order, (chunk) => ({ say: reader.take(chunk), isOver: reader.isDone }));
    if (reader.isDone) return reader.refs;
    await narrator.output(said);
    throw reason(source, recognize('', said) ?? 'connection_lost');
  } catch (error) {
    if (error instanceof ChannelLostError) throw reason(source, 'connection_lost');
    if (error instanceof UnreadableError)
      throw new FetchError('remote_failed', `The repository ${address.url} cannot be polled: ${error.message}.`);
    if (!(error instanceof DeclinedError)) throw error;
    narrator.line(error.message);
    throw reason(source, recognize('', error.message) ?? 'remote_failed');
  }
}
