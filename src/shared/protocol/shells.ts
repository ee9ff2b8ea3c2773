import type { Source } from './orders.ts';

/** A shell in kept files. */
export interface ShellOrder {
  id: string;
  buildId: string;
  /** The key opens the runner's notes about the files. */
  name: string;
  key: string;
  source: Source;
  /** The shell ends after this time, even if it is in use. */
  lastsMs: number;
  /** Names of the build's variables that this shell does not get. */
  withheld: string[];
}

export const shellEnds = ['exited', 'idle', 'client_gone', 'files_gone', 'failed', 'stopped'] as const;

export type ShellEnd = (typeof shellEnds)[number];
