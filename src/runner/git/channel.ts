import type { Socket } from 'node:net';
import type { HttpsCredential } from '../../shared/protocol/index.ts';

/** Joins a program in a session to a command on its remote. */
export interface Channel {
  /** Waits a little for the remote to end by itself, and returns the last of its output. */
  end(): Promise<Buffer>;
  kill(): void;
}

/** The commands of a remote. */
export type Service = 'git-upload-pack' | 'git-receive-pack' | 'git-lfs-authenticate' | 'git-lfs-transfer';

/** Opens a channel for a connection from a session. Output besides the protocol goes to `hear`. */
export type OpenChannel = (socket: Socket, onChunk: (chunk: Buffer) => Promise<void>) => Channel;

/** What a session may reach. */
export interface Way {
  /** Commands of the remote. */
  services?: Partial<Record<Service, OpenChannel>>;
  https?: HttpsWay;
}

/** Addresses that may be called over HTTPS. */
export interface HttpsWay {
  /** How many bytes may come from there. */
  bytes: number;
  /** The one host and port that may be called, where nothing else is needed: redirects lead nowhere else. */
  only?: string;
  /** What opens the repository at this address, for git. */
  credential?: Opener;
  /** The same for large files: the runner itself asks where they are (large-file-calls.ts). */
  largeFiles?: Opener;
}

export type Opener = HttpsCredential & { url: string };
