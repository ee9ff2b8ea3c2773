import type { Socket } from 'node:net';
import type { HttpsCredential } from '../../shared/protocol/index.ts';

export interface Channel {
  /** Waits a little for the remote to end, and returns the last of its output. */
  end(): Promise<Buffer>;
  kill(): void;
}

export type Service = 'git-upload-pack' | 'git-receive-pack' | 'git-lfs-authenticate' | 'git-lfs-transfer';

/** Opens a channel for a connection from a session. Output outside the protocol goes to `onChunk`. */
export type OpenChannel = (socket: Socket, onChunk: (chunk: Buffer) => Promise<void>) => Channel;

export interface Way {
  services?: Partial<Record<Service, OpenChannel>>;
  https?: HttpsWay;
}

export interface HttpsWay {
  /** The most bytes that may come from there. */
  bytes: number;
  /** The only permitted host and port, if no other is needed. Redirects to other hosts fail. */
  only?: string;
  /** The credential for git, for this address. */
  credential?: Opener;
  /** For large files: the runner itself requests their addresses (large-file-calls.ts). */
  largeFiles?: Opener;
}

export type Opener = HttpsCredential & { url: string };
