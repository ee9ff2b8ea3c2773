import type { ClaimSignal, Demand, KeptTree, LogChunk } from './index.ts';
import type { LookOrder, LookReport } from './looks.ts';
import type { Order, RegistryAccess } from './orders.ts';
import type { FinishReport, Receipt, UploadReport } from './outcomes.ts';
import type { ShellEnd, ShellOrder } from './shells.ts';
import type { TestBatch, TestReceipt } from './tests.ts';

/** Where a runner opens its connection. */
export const connectionPath = '/runner/connection';

/** A place that is free. */
export interface Wish {
  /** The name of the claim with which its order is to come. */
  claim: string;
  /** What the order may be for; everything where it is left out. */
  place?: 'builds' | 'fetches' | undefined;
  /** How long it waits, if not for ever. */
  holdMs?: number | undefined;
}

/** What a runner calls: what it says with it, and the answer. Bytes go behind the JSON, in both directions. */
export interface Calls {
  next: Call<Wish, Order | undefined>;
  leave: Call<{ claims: string[] }>;
  demand: Call<object, Demand>;
  log: Call<LogChunk, Receipt>;
  tests: Call<TestBatch, TestReceipt>;
  extend: Call<{ claims: string[] }, Record<string, ClaimSignal>>;
  finish: Call<FinishReport, Receipt>;
  uploaded: Call<UploadReport, Receipt>;
  key: Call<{ claim: string }, string | undefined>;
  registry: Call<{ claim: string }, RegistryAccess | undefined>;
  looks: Call<{ room: number }, LookOrder[]>;
  looked: Call<{ reports: LookReport[] }>;
  gone: Call<{ projects: string[] }, string[]>;
  stale: Call<{ trees: KeptTree[] }, KeptTree[]>;
  shells: Call<{ keeper: string; running: string[]; room: number }, ShellOrder[]>;
  shellInput: Call<{ shell: string; from: number }, Buffer | undefined>;
  shellOutput: Call<{ shell: string; offset: number; bytes: Buffer }, { at: number | null } | undefined>;
  shellEnd: Call<{ shell: string; reason: ShellEnd }>;
}

interface Call<Says, Answer = void> {
  says: Says;
  answer: Answer;
}

export type CallName = keyof Calls;

/** A message to the server. */
export type ToServer = {
  [Name in CallName]: { id: number; call: Name } & Calls[Name]['says'];
}[CallName];

/**
 * A message to a runner: the answer to a call, that the runner is to end, or why there is no answer, with the status and in
 * the form of the API.
 */
export type ToRunner = { id: number } & (
  { answer?: unknown; bytes?: Buffer } | { end: true } | { status: number; error: object }
);

/** Why a server closes a connection, other than that it closes itself. */
export const closing = { tokenEnded: 4401, elsewhere: 4503 } as const;

/** A message is a text in JSON, or, where it has bytes, binary: a line of JSON and the bytes. */
export function encodeMessage(message: ToServer | ToRunner): string | Buffer {
  const { bytes, ...head } = message as { bytes?: Uint8Array };
  const text = JSON.stringify(head);
  return bytes === undefined ? text : Buffer.concat([Buffer.from(`${text}\n`), bytes]);
}

/** Throws where it is none. */
export function decodeMessage(data: Buffer, isBinary: boolean): Record<string, unknown> {
  const end = isBinary ? data.indexOf(0x0a) : data.length;
  const head: unknown = JSON.parse(data.toString('utf8', 0, end === -1 ? 0 : end));
  if (typeof head !== 'object' || head === null || Array.isArray(head)) throw new Error('a message is an object');
  const { bytes: _, ...fields } = head as Record<string, unknown>;
  return isBinary ? { ...fields, bytes: data.subarray(end + 1) } : fields;
}
