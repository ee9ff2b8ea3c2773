import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';

/*
 * Joins the git in a session to a remote: two named pipes, through which both speak as if over SSH.
 *
 * Each end of a pipe sees end-of-file when the other end is closed, also before the other end was opened. So this
 * process holds the pipes open until the relay in the sandbox has opened its ends, or never will.
 */

export interface Channel {
  /** Called when the relay has opened its ends. */
  joined(): void;
  /** Waits a little for the remote to end by itself, and returns the last of its output. */
  end(): Promise<Buffer>;
  kill(): void;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

/** Opens a channel through the pipes of a session. Output besides the protocol goes to `hear`. */
export type OpenChannel = (pipes: string, service: Service, hear: (chunk: Buffer) => Promise<void>) => Channel;

/** This much of the remote's output is searched for the reason of a failure. */
export const mostKept = 64 * 1024;
/** How long a remote may take to end by itself. */
export const closeTimeoutMs = 2000;

export interface PipeEnds {
  /** The output of git. */
  reads: number;
  /** The input of git. */
  writes: number;
  /** Closes the ends that were held open. */
  release: () => void;
}

export function openEnds(pipes: string): PipeEnds {
  const open = (name: string, flags: number): number => openSync(join(pipes, name), flags | constants.O_NONBLOCK);
  const held = [open('to-ssh', constants.O_RDWR), open('from-ssh', constants.O_RDONLY)];
  const release = (): void => held.splice(0).forEach((fd) => closeSync(fd));
  return { reads: open('to-ssh', constants.O_RDONLY), writes: open('from-ssh', constants.O_WRONLY), release };
}
