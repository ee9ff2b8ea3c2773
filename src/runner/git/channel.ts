import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';

/*
 * What joins the git in a session to another side: two named pipes, through which they speak as if over SSH.
 *
 * Both ends of a pipe see its end when the other is closed, and would see it too early if one came before the
 * other. So this process holds the pipes open until the relay in the sandbox has opened its ends, or will never do so.
 */

export interface Channel {
  /** The relay has opened its ends. */
  joined(): void;
  /** Waits a little for the other side to end by itself, and answers the last of what it said. */
  end(): Promise<Buffer>;
  kill(): void;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

/** Opens a channel through the pipes of a session. What is said besides the conversation goes to `hear`. */
export type OpenChannel = (pipes: string, service: Service, hear: (chunk: Buffer) => Promise<void>) => Channel;

/** Of what the other side says so much is looked at for the reason of a failure. */
export const mostKept = 64 * 1024;
/** So long an other side may take to end by itself. */
export const closeTimeoutMs = 2000;

export interface PipeEnds {
  /** What git says. */
  reads: number;
  /** What git hears. */
  writes: number;
  /** Lets go of what was held open. */
  release: () => void;
}

export function openEnds(pipes: string): PipeEnds {
  const open = (name: string, flags: number): number => openSync(join(pipes, name), flags | constants.O_NONBLOCK);
  const held = [open('to-ssh', constants.O_RDWR), open('from-ssh', constants.O_RDONLY)];
  const release = (): void => held.splice(0).forEach((fd) => closeSync(fd));
  return { reads: open('to-ssh', constants.O_RDONLY), writes: open('from-ssh', constants.O_WRONLY), release };
}
