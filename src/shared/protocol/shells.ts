import type { Source } from './orders.ts';

/** A shell that somebody has opened in kept files. */
export interface ShellOrder {
  id: string;
  buildId: string;
  /** The files, and the key to what the runner knows about them. */
  name: string;
  key: string;
  source: Source;
  /** It ends after so long, whatever happens. */
  lastsMs: number;
  /** The names of the variables of the build that this shell does not have. */
  withheld: string[];
}

/** So long a request for the input, or with the output, is held. */
export const shellHoldSeconds = 10;

/** Why a shell has ended. */
export const shellEnds = ['exited', 'idle', 'client_gone', 'files_gone', 'failed', 'stopped'] as const;

export type ShellEnd = (typeof shellEnds)[number];
