import { constants, fchownSync, openSync, readSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { ignore } from './cgroup-files.ts';
import type { Identity } from './types.ts';

/** Named, because commands open /dev/stdout. The kernel refuses that for Node's sockets and other users' pipes. */
export function openPipe(path: string, { uid, gid }: Identity): { output: Reading; writing: number } {
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(path, constants.O_WRONLY);
  if (process.getuid?.() === 0) fchownSync(writing, uid, gid);
  return { output: readPipe(reading), writing };
}

export interface Reading {
  stream: Socket;
  /** Reads what is in the pipe now, without waiting for the event loop. */
  sweep: () => void;
  /**
   * Must be called when all writers are dead: reads the rest and ends the stream. End-of-file may never come, because a
   * run can keep the other end open past its own death, in a cycle of sockets.
   */
  finish: () => void;
}

export function readPipe(fd: number): Reading {
  const stream = new Socket({ fd, readable: true, writable: false });
  const read = (most: number): void => {
    for (let length = chunkSize, all = 0; length > 0 && all < most; all += length) {
      const chunk = Buffer.allocUnsafe(chunkSize);
      length = readNow(fd, chunk);
      if (length > 0) stream.push(chunk.subarray(0, length));
    }
  };
  return {
    stream,
    sweep: () => {
      if (!stream.destroyed) read(largestPipe);
    },
    finish() {
      if (stream.destroyed) return; // its descriptor may belong to another file by now
      read(Infinity);
      stream.push(null);
    },
  };
}

const chunkSize = 64 * 1024;
/** A process may enlarge a pipe to this size, and fill it again during the read. */
const largestPipe = 1024 * 1024;

export function readNow(fd: number, into: Buffer): number {
  try {
    return readSync(fd, into);
  } catch (error) {
    return ignore('EAGAIN')(error) ?? 0;
  }
}

export function writeNow(fd: number, bytes: Uint8Array): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    return ignore('EAGAIN')(error) ?? 0;
  }
}
