import type { IncomingMessage } from 'node:http';
import type { StreamWriter } from '../lib/stream-writer.ts';
import type { FieldSet } from './fields.ts';
import type { PageOf } from './paging.ts';
import type { RawGroup } from './raw.ts';
import type { JsonSchema } from './schema.ts';

/**
 * Who may call a route: anybody; anybody with valid credentials; users alone (the owner, where a project is
 * concerned); users and collaborators; or those who run the place.
 */
export type Access = 'none' | 'authenticated' | 'users' | 'both' | 'operators';

/** What a token must allow, and how a person is told about it. */
export const scopes = {
  user: 'See your e-mail address and, if you are an operator, the audit log, the runners and the state of the service',
  projects: 'See, create, change and delete your projects and their collaborators',
  build_requests: 'See build requests and their logs',
  build_requests_create: 'Start, cancel and repeat builds',
  commits: 'See commits, their builds and their logs',
  suites: 'See and change suites, their rules, dependencies and environment variables in clear',
  dependencies: 'See, upload, change, share and delete your dependencies',
  deploys: 'See and change deploy strategies, and deploy',
  notifications: 'See and change notifications and what was delivered',
} as const;

export type Scope = keyof typeof scopes;

/** `any` takes a token whatever it allows; `never` takes none: it is for people themselves; `none` needs no credentials. */
export type RouteScope = Scope | 'any' | 'never' | 'none';

/** What the world is told of a route; the OpenAPI document is made of these. */
export interface RouteDescription {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Parameters as `:name`; all of them are identifiers. */
  path: string;
  access: Access;
  scope: RouteScope;
  summary: string;
  body?: FieldSet;
  query?: FieldSet;
  /** Whether it has builds or deploys done, which are the project's owner's to pay for. */
  startsWork?: boolean;
  /** Whether the answer is one page of a list. */
  paged?: boolean;
  /** The content types of an answer that is sent as it comes, outside the envelope. */
  streams?: readonly string[];
  /** The content types of a body that is taken as it comes, however long it is, and the field of a form that may hold it. */
  uploads?: { types: readonly string[]; field: string };
  /** 201 where something is created. */
  status: 200 | 201;
  /** What stands under `response`. */
  answer: JsonSchema;
  /** Whether secrets are shown in it: then it is never compressed. */
  showsSecrets?: boolean;
}

/** A request as an endpoint sees it. */
export interface Incoming {
  readonly id: string;
  readonly url: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: RawGroup;
  readonly body: RawGroup | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  /** The request itself, of which the body can be read where it was not yet. */
  readonly raw: IncomingMessage;
}

interface StreamHead {
  contentType: string;
  status?: number;
  headers?: Record<string, string>;
}

/** An answer that is sent while it is made, and no faster than the caller takes it. */
export type StreamAnswer =
  /** The caller has everything: a browser that hears this does not come back for more. */
  | { status: 204 }
  /** Left off when the caller goes. */
  | (StreamHead & { body: AsyncIterable<string | Uint8Array>; isWorthPacking?: boolean })
  /** Tells what there is to be told, and is over when the promise is settled: for what many callers are told at once. */
  | (StreamHead & { tell: (writer: StreamWriter) => Promise<void> });

/** What an endpoint answers: a record (or list), a page, or a stream; `json` when the text is there already. */
export type Answer =
  /** `keep` takes the text that was made of the record, to recall it as long as it holds. */
  | { record: unknown; keep?: (text: string) => void }
  | { page: PageOf<{ id: bigint }> }
  | { stream: StreamAnswer }
  | { json: string };

/** A route ready to be served. `admit` runs before the body is read, so that a stranger's body costs nothing. */
export interface Endpoint<Admitted = unknown> extends RouteDescription {
  admit(request: Incoming): Admitted | Promise<Admitted>;
  /** `signal` says that the caller of a stream has gone. */
  perform(request: Incoming, admitted: Admitted, signal?: AbortSignal): Promise<Answer & { status?: number }>;
  /** The text of the answer, where it is known to be the same as the last time. */
  recall?(request: Incoming, admitted: unknown): string | undefined;
}
