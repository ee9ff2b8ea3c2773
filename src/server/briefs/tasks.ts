import type { HashSet } from './hash-set.ts';

/* What the thread is asked for. Sets and pieces of logs are handed over, and sets are handed back. */

type Bytes = Uint8Array<ArrayBuffer>;

/** Adds the lines of a piece to a set, up to `most`. */
export interface HashesTask {
  kind: 'hashes';
  set: HashSet;
  count: number;
  most: number;
  bytes: Bytes;
}

export interface HashesAnswer {
  set: HashSet;
  count: number;
}

/** The hashes by which the end of a failed run compares with others. */
export interface EndingTask {
  kind: 'ending';
  bytes: Bytes;
}

/** Joins hashes of several runs in one set. */
export interface JoinTask {
  kind: 'join';
  all: HashSet[];
}

/** Finds the lines of a piece that are in no set. */
export interface NewLinesTask {
  kind: 'new';
  bytes: Bytes;
  /** The number of the first line. */
  first: number;
  known: HashSet;
  /** New lines before. It has room for more. */
  seen: HashSet;
  seenCount: number;
  /** The lines of the failed step. */
  step: { from: number; to: number };
  /** The bytes of the piece that the build's commands wrote. */
  output: { from: number; to: number };
}

/** How much a new line tells, the most first. */
export const ranks = ['failure', 'step', 'other', 'repeated'] as const;
export type Rank = (typeof ranks)[number];

export interface ShownLine {
  number: number;
  text: string;
}

export interface NewLine extends ShownLine {
  rank: Rank;
  /** Up to two lines each. */
  before: ShownLine[];
  after: ShownLine[];
}

export interface NewLinesAnswer {
  known: HashSet;
  seen: HashSet;
  seenCount: number;
  /** Of each rank, the first and the last ones. */
  found: NewLine[];
  /** The first and the last lines of the output in the piece. */
  head: ShownLine[];
  tail: ShownLine[];
  hasMore: boolean;
}

export type Task = HashesTask | EndingTask | JoinTask | NewLinesTask;

/** Lines around each new one. */
export const around = 2;
/** The first new lines of a rank that are kept, and as many of the last ones. */
export const mostOfRank = 120;
export const mostSeen = 65_536;
