import type { Caller } from '../auth/callers.ts';
import type { Organisation } from '../auth/organisations.ts';
import type { MemberRole } from '../auth/roles.ts';
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
import type { ArtifactAddresses } from '../auth/artifact-addresses.ts';
import type { OpenForge } from '../forges/index.ts';
import type { Mailer } from '../mail/mailer.ts';
import type { Observers } from '../lifecycle/write-context.ts';
import type { ShellRelay } from '../streams/shell-relay.ts';
import type { SearchThread } from '../streams/search.ts';

export type RouteName = `${RouteDescription['method']} /${string}`;

export interface CallDeps {
  db: Database;
  ids: IdSource;
  observers: Observers;
  vault: Vault;
  /** Waits for commits of other transactions. */
  subscriptions: Subscriptions;
  blobs: Blobs;
  /** For large data on the store's disk. */
  disk: DiskReserve;
  searches: SearchThread;
  checkMs?: number;
  buildTimeout: number;
  imageBuilds: boolean;
  publicProjects: boolean;
  /** For how many hours a failed build's files are retained. 0 retains none. */
  shellHours: number;
  /** For how many hours files for other suites are retained after their request. */
  filesHours: number;
  archiveBytes: number;
  assembling: Map<bigint, Promise<UploadedDependency>>;
  relay: ShellRelay;
  openForge: OpenForge;
  /** Undefined if artifacts have no host name of their own. */
  artifactAddresses: ArtifactAddresses | undefined;
  /** Undefined if no mail server is set. */
  mailer: Mailer | undefined;
}

type Method = RouteDescription['method'];

/** Routes that write get a transaction. The response is sent when it is durable. */
export type Store<M extends Method> = M extends 'GET' ? Queries : Transaction;

/** A change has only the fields that were sent. */
export type Input<M extends Method, Body extends FieldSet> = M extends 'PUT' ? Partial<ValuesOf<Body>> : ValuesOf<Body>;

export type ParamNames<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamNames<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

/** Identifiers, except names that end in `_name`, which are texts. */
export type ParamsOf<Name extends string> = { [One in Name]: One extends `${string}_name` ? string : bigint };

export interface Call<
  M extends Method = Method,
  Path extends string = string,
  Body extends FieldSet = FieldSet,
  Query extends FieldSet = FieldSet,
> extends Omit<CallDeps, 'db'> {
  db: Store<M>;
  /** For announcements, and for work after the response has begun. */
  database: Database;
  headers: Incoming['headers'];
  /** The public address, without a trailing slash. */
  origin: string;
  /** The client's address. null if no user's program sent the request. */
  address: string | null;
  /** Aborted when the caller no longer waits. */
  signal: AbortSignal;
  params: ParamsOf<ParamNames<Path>>;
  /**
   * Calls another route for the same caller in the same transaction, with its admission, field checks and audit entry.
   */
  within: (name: RouteName, params: Readonly<Record<string, bigint>>, body?: RawGroup) => Promise<unknown>;
  input: Input<M, Body>;
  /** The body as sent, for checks of a field even if a part of it was refused. */
  sent: RawGroup;
  query: ValuesOf<Query>;
  page: Page;
}

export interface WithCaller {
  caller: Caller;
}

export interface WithProject extends WithCaller {
  project: VisibleProject;
}

export interface WithOrganisation extends WithCaller {
  organisation: Organisation & { role: MemberRole };
}

export interface WithUpload {
  /** Throws when the caller disconnects. */
  upload: AsyncIterable<Buffer>;
  /** Runs the transaction that stores the complete upload. */
  take: <T>(work: (trx: Transaction) => Promise<T>) => Promise<T>;
}
