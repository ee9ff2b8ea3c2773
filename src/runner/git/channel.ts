import type { Socket } from 'node:net';

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
  /** Public addresses over HTTPS, from which this many bytes may come. */
  publicBytes?: number;
}
