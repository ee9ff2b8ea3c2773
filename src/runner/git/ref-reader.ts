import { isUtf8 } from 'node:buffer';
import { bytes, most } from '../../lib/bounds.ts';
import type { Refs } from '../../lib/ref-listings.ts';
import { isRefName } from '../../lib/ref-names.ts';

/**
 * Reads the branches and tags of a repository in git's protocol: version 2, where the client asks for them, and older
 * ones, where the remote sends all refs by itself. The data is untrusted: it is read as it arrives, only well-formed
 * names and commits are kept, and everything has a limit.
 */

/** The remote does not speak git's protocol, or sends too much. */
export class UnreadableError extends Error {
  override name = 'UnreadableError';
}

/** The remote speaks the protocol, and refuses. */
export class DeclinedError extends Error {
  override name = 'DeclinedError';
}

/** The most bytes of one poll; a repository may send many refs that were not requested. */
export const mostBytes = 64 * 1024 * 1024;

const flush = '0000';
const delimiter = '0001';
const longestPacket = 65_520;

type State = 'greeted' | 'capabilities' | 'refs' | 'done';

export class RefReader {
  #pending: Buffer = Buffer.alloc(0);
  #taken = 0;
  #state: State = 'greeted';
  #size = 0;
  readonly #refs = new Map<string, string>();

  get isDone(): boolean {
    return this.#state === 'done';
  }

  get refs(): Refs {
    return this.#refs;
  }

  /** Takes received bytes, and returns the bytes to send. */
  take(chunk: Buffer): string {
    this.#taken += chunk.length;
    if (this.#taken > mostBytes) throw new UnreadableError('it sends more than a listing may have');
    let rest = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    let answer = '';
    while (rest.length >= 4 && !this.isDone) {
      const length = lengthOf(rest);
      if (rest.length < Math.max(length, 4)) break;
      answer += this.#packet(length < 4 ? length : rest.subarray(4, length));
      rest = rest.subarray(Math.max(length, 4));
    }
    this.#pending = this.isDone ? Buffer.alloc(0) : Buffer.from(rest);
    return answer;
  }

  /** A packet, or the number of a packet without content. */
  #packet(packet: Buffer | number): string {
    if (Buffer.isBuffer(packet) && packet.subarray(0, 4).equals(sayingError))
      throw new DeclinedError(packet.subarray(4, 2000).toString().trim());
    switch (this.#state) {
      case 'greeted':
        return this.#greeting(packet);
      case 'capabilities':
        return this.#capability(packet);
      case 'refs':
        if (packet === 0) return this.#end();
        if (!Buffer.isBuffer(packet)) throw notGit();
        this.#line(packet);
        return '';
      case 'done':
      default:
        return '';
    }
  }

  #greeting(packet: Buffer | number): string {
    this.#state = 'refs';
    if (packet === 0) return this.#end(); // some hosts describe an empty repository like this
    if (!Buffer.isBuffer(packet)) throw notGit();
    const text = packet.toString('latin1').trimEnd();
    if (text === 'version 2') this.#state = 'capabilities';
    else if (text !== 'version 1') {
      const end = packet.indexOf(0);
      if (end !== -1) expectSha1(packet.subarray(end + 1).toString('latin1'));
      this.#line(end === -1 ? packet : packet.subarray(0, end));
    }
    return '';
  }

  #capability(packet: Buffer | number): string {
    if (Buffer.isBuffer(packet)) {
      expectSha1(packet.toString('latin1'));
      return '';
    }
    if (packet !== 0) throw notGit();
    this.#state = 'refs';
    const asked = ['peel', 'ref-prefix refs/heads/', 'ref-prefix refs/tags/'].map(line);
    return `${line('command=ls-refs')}${delimiter}${asked.join('')}${flush}`;
  }

  #line(packet: Buffer): void {
    if (!isUtf8(packet)) return; // such a name cannot be requested
    const text = packet.toString().replace(/\n$/, '');
    const [sha = '', name = '', ...more] = text.split('\0', 1).join('').split(' ');
    if (sha === 'shallow') return;
    if (!/^[0-9a-f]{40}$/.test(sha) || name === '') throw notGit();
    const peeled = more.find((one) => one.startsWith('peeled:'))?.slice('peeled:'.length);
    if (peeled !== undefined && !/^[0-9a-f]{40}$/.test(peeled)) throw notGit();
    this.#note(name.replace(/\^\{\}$/, ''), peeled ?? sha);
  }

  /** A tag is listed before its commit; the last entry counts. */
  #note(name: string, sha: string): void {
    if (!/^refs\/(heads|tags)\/./.test(name) || !isRefName(name)) return;
    if (!this.#refs.has(name)) this.#size += sha.length + Buffer.byteLength(name) + 2;
    this.#refs.set(name, sha);
    if (this.#refs.size > most.refs || this.#size > bytes.refListing)
      throw new UnreadableError(`it has more than ${most.refs} branches and tags, or names of enormous length`);
  }

  /** The last bytes let the remote end normally. */
  #end(): string {
    this.#state = 'done';
    return flush;
  }
}

const sayingError = Buffer.from('ERR ');

function lengthOf(bytes: Buffer): number {
  const digits = bytes.toString('latin1', 0, 4);
  const length = /^[0-9a-fA-F]{4}$/.test(digits) ? Number.parseInt(digits, 16) : -1;
  if (length < 0 || length === 3 || length === 4 || length > longestPacket) throw notGit();
  return length;
}

function line(text: string): string {
  return `${(text.length + 5).toString(16).padStart(4, '0')}${text}\n`;
}

function expectSha1(capabilities: string): void {
  const [, format = 'sha1'] = /(?:^| )object-format=(\S+)/.exec(capabilities) ?? [];
  if (format !== 'sha1') throw new UnreadableError(`its commits have names of the kind ${format.slice(0, 16)}`);
}

function notGit(): UnreadableError {
  return new UnreadableError('what it says is not git’s protocol');
}
