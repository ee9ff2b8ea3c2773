import type { Vault } from '../../shared/lib/vault.ts';
import type { Database } from '../db/open.ts';
import type { Watch } from '../db/subscriptions.ts';

/**
 * Passes bytes between two requests, perhaps on different servers. Nothing is stored: the writer resends its bytes
 * until the reader requests later ones. So a broken request loses and repeats nothing. Servers use announcements, which
 * can be lost, so writer and reader repeat while they wait. Typed text travels sealed.
 */
export interface ByteRelay {
  /** The position that the reader requests; undefined if none read in time. */
  write(name: string, piece: Piece, waiting: Waiting): Promise<number | undefined>;
  read(name: string, from: number, waiting: Waiting): Promise<Buffer | undefined>;
  close(): void;
}

export interface Piece {
  offset: number;
  bytes: Uint8Array;
}

/** Until `ms` have passed, the signal, or a change of the shell. */
export interface Waiting {
  watch: Watch;
  ms: number;
  signal: AbortSignal;
}

interface Writer extends Piece {
  isAt: (position: number) => void;
}

interface Reader {
  from: number;
  take: (bytes: Buffer) => void;
}

/** Limit of an announcement, sealed. */
const mostAbroad = 3000;
const repeatMs = 2000;
const word = 'bytes';

export function createByteRelay(db: Database, vault: Vault): ByteRelay {
  const writers = new Map<string, Writer>();
  const readers = new Map<string, Reader>();

  const announce = (name: string, kind: 'at' | 'data', position: number, content = ''): void => {
    db.tellOthers([word, name, kind, position, content].join(' ')); // losses are repeated
  };
  const send = (name: string, { offset, bytes }: Piece): void => {
    if (offer(name, { offset, bytes })) return;
    const some = Buffer.from(bytes.subarray(0, mostAbroad)).toString('base64');
    announce(name, 'data', offset, vault.seal(some, locationOf(name)));
  };
  const offer = (name: string, { offset, bytes }: Piece): boolean => {
    const reader = readers.get(name);
    if (!reader) return false;
    const rest = bytes.subarray(reader.from - offset);
    if (reader.from >= offset && rest.length > 0) reader.take(Buffer.from(rest));
    return true;
  };
  const isAt = (name: string, position: number): void => {
    const writer = writers.get(name);
    if (!writer) return;
    if (position === writer.offset) send(name, writer);
    else writer.isAt(position);
  };
  const stop = db.listen((topic) => {
    const [first, name = '', kind, position, content = ''] = topic.split(' ');
    if (first !== word) return;
    if (kind === 'at') isAt(name, Number(position));
    else if (readers.has(name)) offer(name, { offset: Number(position), bytes: opened(name, content) });
  });

  /** One that cannot be opened is repeated, with the key that both servers have by then. */
  const opened = (name: string, content: string): Buffer => {
    try {
      return Buffer.from(vault.open(content, locationOf(name)), 'base64');
    } catch {
      return Buffer.alloc(0);
    }
  };

  return {
    write: (name, piece, waiting) =>
      settled<number>(waiting, (resolve) => {
        const writer: Writer = { ...piece, isAt: resolve };
        writers.set(name, writer);
        const repeat = (): void => {
          const { from = writer.offset } = readers.get(name) ?? {};
          if (from < writer.offset || from >= writer.offset + writer.bytes.length) resolve(from);
          else send(name, writer);
        };
        repeat();
        return { repeat, done: () => writers.get(name) === writer && writers.delete(name) };
      }),
    read: (name, from, waiting) =>
      settled<Buffer>(waiting, (resolve) => {
        const reader: Reader = { from, take: resolve };
        readers.set(name, reader);
        const repeat = (): void => {
          if (writers.has(name)) isAt(name, from);
          else announce(name, 'at', from);
        };
        repeat();
        return { repeat, done: () => readers.get(name) === reader && readers.delete(name) };
      }),
    close: stop,
  };
}

const locationOf = (name: string): string => `bytes of ${name}`;

/** Calls `begin`, and then `repeat` until there is an answer or the wait is over. */
async function settled<T>(
  { watch, ms, signal }: Waiting,
  begin: (resolve: (value: T) => void) => { repeat: () => void; done: () => void },
): Promise<T | undefined> {
  const answered = new AbortController();
  let answer: T | undefined;
  const { repeat, done } = begin((value) => {
    answer ??= value;
    answered.abort();
  });
  const repeating = setInterval(repeat, repeatMs);
  await watch.changed(ms, AbortSignal.any([signal, answered.signal]));
  clearInterval(repeating);
  done();
  return answer;
}
