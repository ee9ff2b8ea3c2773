import { spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { killGroup } from '../../lib/process-groups.ts';
import { keepLargeFile, type LargeFileStore, type Pointer } from './lfs-store.ts';
import { refusal, UnavailableError } from './public-https.ts';
import { quoted, type SshRemote } from './ssh-channel.ts';

/*
 * Git LFS over SSH only: `git-lfs-transfer` on the host sends the files itself. Both sides send packets, as git does:
 * four hexadecimal digits of length, then the content; 0000 ends a message, 0001 separates its parts.
 */

const greetingMs = 30_000;
const atOnce = 100;
const longestPacket = 65_520;
/** The most bytes besides files; no valid answer has more. */
const mostOfWords = 1024 * 1024;

/**
 * Fetches files over a connection. False when the host has no such command; else why some are missing, or undefined
 * when none are.
 */
export async function transferLargeFiles(
  { ssh, destination, path }: SshRemote,
  wanted: readonly Pointer[],
  store: LargeFileStore,
): Promise<UnavailableError | false | undefined> {
  const command = `git-lfs-transfer ${quoted(path)} download`;
  const child = spawn('setpriv', ['--pdeathsig', 'TERM', '--', 'ssh', ...ssh, '--', destination, command], {
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', LC_ALL: 'C.UTF-8' },
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  const kill = (): void => killGroup(child.pid, 'SIGKILL');
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()).once('error', () => resolve()));
  child.stdin.on('error', () => {}); // noticed when the output ends
  store.signal.addEventListener('abort', kill, { once: true });
  const timeout = setTimeout(kill, greetingMs);
  try {
    const talk = conversation(child.stdout, child.stdin);
    const greeting = await talk.words().catch(() => undefined);
    clearTimeout(timeout);
    if (!greeting?.includes('version=1')) return false;
    await talk.ask(['version 1']);
    return await fetchAll(talk, wanted, store);
  } finally {
    clearTimeout(timeout);
    store.signal.removeEventListener('abort', kill);
    kill();
    await ended;
    // Unread bytes would hold them open.
    child.stdin.destroy();
    child.stdout.destroy();
  }
}

async function fetchAll(
  talk: Conversation,
  wanted: readonly Pointer[],
  store: LargeFileStore,
): Promise<UnavailableError | undefined> {
  let trouble: UnavailableError | undefined;
  for (let at = 0; at < wanted.length; at += atOnce) {
    const some = wanted.slice(at, at + atOnce);
    const lines = some.map(({ oid, size }) => `${oid} ${size}`);
    await talk.ask(['batch', 'transfer=ssh', 'hash-algo=sha256'], lines);
    const offers = new Map<string, string[]>();
    for (const line of await talk.words()) {
      const [oid = '', , action, ...details] = line.split(' ');
      if (action === 'download') offers.set(oid, details);
    }
    for (const pointer of some) {
      const details = offers.get(pointer.oid);
      if (details === undefined) continue;
      const given = details.filter((detail) => /^(id|token)=/.test(detail));
      try {
        await talk.ask([`get-object ${pointer.oid}`, ...given]);
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
        trouble ??= error;
        continue;
      }
      // A wrong file ends the conversation: the beginning of the next message is unknown.
      await keepLargeFile(store, pointer, talk.bytes());
    }
  }
  return trouble;
}

/** The host answered with a refusal. */
class RefusedError extends UnavailableError {}

interface Conversation {
  /** Sends a message, and reads the head of the answer; throws if it is a refusal. */
  ask(command: readonly string[], lines?: readonly string[]): Promise<void>;
  /** The lines of the rest of the answer. */
  words(): Promise<string[]>;
  /** The rest of the answer as bytes. */
  bytes(): AsyncGenerator<Buffer>;
}

function conversation(from: Readable, to: Writable): Conversation {
  const packets = packetsOf(from);
  let isOver = false; // the answer has ended with its head
  const next = async (): Promise<Buffer | 'end' | 'part'> => {
    const { value, done } = await packets.next();
    if (done) throw new UnavailableError('its host closed the connection early', false);
    return value;
  };
  async function* rest(): AsyncGenerator<Buffer> {
    if (isOver) return;
    for (let said = await next(); said !== 'end'; said = await next()) if (said !== 'part') yield said;
  }
  const words = async (): Promise<string[]> => {
    const lines: string[] = [];
    let left = mostOfWords;
    for await (const line of rest()) {
      left -= line.length + 1;
      if (left < 0) throw new UnavailableError('its host sends more than expected', true);
      lines.push(line.toString().replace(/\n$/, ''));
    }
    return lines;
  };
  return {
    words,
    bytes: rest,
    ask: async (command, lines) => {
      const parted = lines === undefined ? [] : ['0001', ...lines.map(packet)];
      to.write([...command.map(packet), ...parted, '0000'].join(''));
      isOver = false;
      let status = 0;
      let left = mostOfWords;
      for (;;) {
        const said = await next();
        isOver = said === 'end';
        if (typeof said === 'string') break;
        left -= said.length + 1;
        if (left < 0) throw new UnavailableError('its host sends more than expected', true);
        status ||= Number(/^status (\d{3})\n?$/.exec(said.toString('latin1'))?.[1] ?? 0);
      }
      if (status >= 200 && status < 300) {
        if (lines === undefined && command[0]?.startsWith('version')) await words();
        return;
      }
      await words();
      const { message, isLasting } = refusal(status);
      throw new RefusedError(message, isLasting);
    },
  };
}

function packet(line: string): string {
  const text = `${line}\n`;
  return (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;
}

async function* packetsOf(from: Readable): AsyncGenerator<Buffer | 'end' | 'part', void> {
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of from as AsyncIterable<Buffer>) {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    let at = 0;
    while (held.length - at >= 4) {
      const digits = held.toString('latin1', at, at + 4);
      const length = /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : longestPacket + 1;
      if (length > longestPacket || length === 2 || length === 3) {
        throw new UnavailableError('its host does not speak the Git LFS protocol', true);
      }
      if (length >= 4 && held.length - at < length) break;
      yield length === 0 ? 'end' : length === 1 ? 'part' : Buffer.from(held.subarray(at + 4, at + length));
      at += Math.max(length, 4);
    }
    held = Buffer.from(held.subarray(at));
  }
}
