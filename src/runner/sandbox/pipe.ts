import { constants, fchownSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Identity } from './types.ts';

/**
 * Both ends of a named pipe, for what a run writes: not the socket pair that Node would make, because commands open
 * /dev/stdout and /dev/stderr, which the kernel refuses for sockets, and for pipes that belong to somebody else.
 */
export function openPipe(path: string, { uid, gid }: Identity): { output: Socket; writing: number } {
  const reading = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writing = openSync(path, constants.O_WRONLY);
  if (process.getuid?.() === 0) fchownSync(writing, uid, gid);
  return { output: new Socket({ fd: reading, readable: true, writable: false }), writing };
}
