import type { Caller } from '../auth/callers.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { FieldSet, ValuesOf } from '../../shared/records/fields.ts';
import type { Page } from '../http/paging.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import type { Incoming, RouteDescription } from '../http/route.ts';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { UploadedDependency } from '../../shared/records/dependency.ts';
import type { OpenForge } from '../forges/index.ts';
import type { Observers } from '../lifecycle/write-context.ts';
import type { ByteRelay } from '../streams/byte-relay.ts';
import type { SearchThread } from '../streams/search.ts';

/** A route by its method and path, as it was declared: `POST /projects/:project_id/suites`. */
export type RouteName = `${RouteDescription['method']} /${string}`;

/** The services that every handler gets. */
export interface Services {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  /** Waits for commits of other transactions. */
  subscriptions: Subscriptions;
  blobs: Blobs;
  /** The free space for large data on the store's disk. */
  disk: DiskReserve;
  /** The thread that searches logs. */
  searches: SearchThread;
  /** How long a caller waits for a check of a repository, if it is not the usual time. */
  checkMs?: number;
  /** The longest time that a build may take on this server, in seconds. */
  buildTimeout: number;
  /** Whether suites of this server may build images. */
  imageBuilds: boolean;
  /** For how many hours the files of a failed build are kept; 0 keeps none. */
  shellHours: number;
  /** For how many hours files that other suites begin with are kept after their request is over. */
  filesHours: number;
  /** The most bytes that an archive may have on this server. */
  archiveBytes: number;
  /** Archives that are being put together. */
  assembling: Map<bigint, Promise<UploadedDependency>>;
  /** Passes the bytes of shells between requests. */
  relay: ByteRelay;
  /** Opens a forge, by the rules of this server's calls. */
  openForge: OpenForge;
}

type Method = RouteDescription['method'];

/** Routes that write get a transaction; the answer is sent when it is durable. */
export type Store<M extends Method> = M extends 'GET' ? Queries : Transaction;

/** A change holds only the fields that were sent. */
export type Input<M extends Method, Body extends FieldSet> = M extends 'PUT' ? Partial<ValuesOf<Body>> : ValuesOf<Body>;

/** The parameter names of a path. */
export type ParamNames<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamNames<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

/** Parameters are identifiers, but those that end in `_name` are texts. */
export type ParamsOf<Name extends string> = { [One in Name]: One extends `${string}_name` ? string : bigint };

/** The arguments of a handler. */
export interface Call<
  M extends Method = Method,
  Path extends string = string,
  Body extends FieldSet = FieldSet,
  Query extends FieldSet = FieldSet,
> extends Omit<Services, 'db'> {
  db: Store<M>;
  /** The database itself, for announcements and for work after the answer has begun. */
  database: Database;
  headers: Incoming['headers'];
  /** The public address of this server, without a slash at the end. */
  origin: string;
  /** Aborted when the caller does not wait for the answer any more. */
  signal: AbortSignal;
  params: ParamsOf<ParamNames<Path>>;
  /**
   * Calls another route for the same caller, in the same transaction: with its admission, field checks and audit entry.
   */
  within: (name: RouteName, params: Readonly<Record<string, bigint>>, body?: RawGroup) => Promise<unknown>;
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
  /** The body as it arrives. It throws when the caller disconnects. */
  upload: AsyncIterable<Buffer>;
  /** Runs the transaction that stores the upload, once it is complete. */
  take: <T>(work: (trx: Transaction) => Promise<T>) => Promise<T>;
}
