import type { Caller } from '../auth/callers.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { FieldSet, ValuesOf } from '../http/fields.ts';
import type { Page } from '../http/paging.ts';
import type { Incoming, RouteDescription } from '../http/route.ts';
import type { DiskReserve } from '../lib/disk-reserve.ts';
import type { IdSource } from '../lib/ids.ts';
import type { Vault } from '../lib/vault.ts';
import type { SearchThreads } from '../lib/search-threads.ts';
import type { Broadcasts } from '../streams/broadcast.ts';

/** What every handler can rely on being there. */
export interface Services {
  db: Database;
  ids: IdSource;
  vault: Vault;
  /** Waits for what others commit. */
  subscriptions: Subscriptions;
  /** What many follow together at the moment. */
  broadcasts: Broadcasts;
  blobs: Blobs;
  /** Whether there is room for what may be large, where the store lies. */
  disk: DiskReserve;
  /** Where logs are searched. */
  searches: SearchThreads;
}

type Method = RouteDescription['method'];

/** Routes that write get a transaction, and are answered once it is durable. */
export type Store<M extends Method> = M extends 'GET' ? Queries : Transaction;

/** A change holds only what was sent. */
export type Input<M extends Method, Body extends FieldSet> = M extends 'PUT' ? Partial<ValuesOf<Body>> : ValuesOf<Body>;

/** The names behind the colons of a path. */
export type ParamNames<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamNames<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

/** What a handler is given. */
export interface Call<
  M extends Method = Method,
  Path extends string = string,
  Body extends FieldSet = FieldSet,
  Query extends FieldSet = FieldSet,
> {
  db: Store<M>;
  /** The database as a whole, for what announces or goes on after the answer has begun. */
  database: Database;
  ids: IdSource;
  vault: Vault;
  subscriptions: Subscriptions;
  broadcasts: Broadcasts;
  blobs: Blobs;
  searches: SearchThreads;
  disk: DiskReserve;
  headers: Incoming['headers'];
  /** Where callers find this server, without a slash at the end. */
  origin: string;
  /** Says that nobody waits for the answer any more. */
  signal: AbortSignal;
  params: Record<ParamNames<Path>, bigint>;
  input: Input<M, Body>;
  query: ValuesOf<Query>;
  page: Page;
}

export interface WithCaller {
  caller: Caller;
}

export interface WithProject extends WithCaller {
  project: VisibleProject;
}

export interface WithUpload {
  /** The body, as it arrives. It breaks off when the caller does. */
  upload: AsyncIterable<Buffer>;
  /** The transaction in which it is taken once it is there. */
  take: <T>(work: (trx: Transaction) => Promise<T>) => Promise<T>;
}
