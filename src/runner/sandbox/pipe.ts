import { constants, fchownSync, openSync, readSync } from 'node:fs';
import { Socket } from 'node:net';
import { ignore } from './cgroup-files.ts';
import type { Identity } from './types.ts';

/**
 * Both ends of a named pipe, for what a run writes: not the socket pair that Node would make, because commands open
 * /dev/stdout and /dev/stderr, which the kernel refuses for sockets, and for pipes that belong to somebody else.
 */
export function openPipe(path: string, { uid, gid }: Identity): { output: Reading; writing: number } {
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(path, constants.O_WRONLY);
  if (process.getuid?.() === 0) fchownSync(writing, uid, gid);
  return { output: readPipe(reading), writing };
}

/** What comes out of a pipe. */
export interface Reading {
  stream: Socket;
  /**
   * Reads what is in the pipe and ends the stream with it. For a pipe whose writers are all dead: its own end may never
   * come, because a run can keep the other side open past its death, in a cycle of sockets that the kernel collects late
   * or not at all.
   */
  finish: () => void;
}

export function readPipe(fd: number): Reading {
  const stream = new Socket({ fd, readable: true, writable: false });
  return {
    stream,
    finish() {
      if (stream.destroyed) return; // and its descriptor may be another file's by now
      for (let length = chunkSize; length > 0;) {
        const chunk = Buffer.allocUnsafe(chunkSize);
        length = readNow(fd, chunk);
        if (length > 0) stream.push(chunk.subarray(0, length));
      }
      stream.push(null);
    },
  };
}

const chunkSize = 64 * 1024;

/** How much there was to read without waiting. */
export function readNow(fd: number, into: Buffer): number {
  try {
    return readSync(fd, into);
  } catch (error) {
    return ignore('EAGAIN')(error) ?? 0;
  }
}
