import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import type { StreamWriter } from '../../shared/lib/stream-writer.ts';
import type { FieldSet } from '../../shared/records/fields.ts';
import type { PageOf } from './paging.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import type { TSchema } from 'typebox';

/** Each role may do what those before it may. `public` is anybody, for a public project. */
export const roles = ['public', 'viewer', 'developer', 'maintainer', 'owner'] as const;
export type Role = (typeof roles)[number];

/** Routes of a project or an organisation name a role there. `users`: only users. `both`: users and collaborators. */
export type Access = 'none' | 'authenticated' | 'users' | 'both' | 'operators' | Role;

export function isRole(access: Access): access is Role {
  return (roles as readonly string[]).includes(access);
}

/** Users read the text before allowing a scope. It names everything that the scope's routes can do (tested). */
export const scopes = {
  user: 'See your e-mail address, change whether you take news by e-mail and, if you are an operator, the audit log, the runners and the state of the service',
  projects:
    'See, create, change and delete your projects: their repository, which decides what runs with their variables; their ' +
    'collaborators; schedules, hooks and replays of hooks, which start builds; status targets, with tokens that are never ' +
    'shown; and all settings as one document. See what happens in them. See, connect, change and delete connected forges, ' +
    'see the repositories there, and set up keys, hooks and statuses there',
  organisations:
    'See, create, change and delete your organisations: their members, also by invitation, their environment variables in ' +
    'clear, and their runners',
  build_requests: 'See build requests and their builds, why their suites ran, and the logs of fetches and builds',
  build_requests_create:
    'Start builds, and approve, cancel and repeat builds. Together with the right to change suites: start builds also with ' +
    'variables, which change what they run and can have it show their secrets',
  shells: 'Open a shell in failed builds, with their variables in clear',
  commits:
    'See commits and what they were built for, their builds, logs and tests, and download the files that builds left',
  suites:
    'See, create, change and delete suites: what they run, their rules, dependencies and software, their environment ' +
    'variables and those of projects in clear, and caches',
  dependencies:
    'See, create, change, upload, compile (which runs their commands), share with every account, download and delete your ' +
    'dependencies; see their logs and uses, and the marketplace. See, add and delete your credentials for registries of ' +
    'images, without seeing passwords',
  deploys:
    'See, create, change and delete deploy strategies, deploy commits to the repositories that they name or by running ' +
    'suites, with the secrets of these, approve, reject and cancel deploys, and see their logs',
  notifications:
    'See, create, change and delete notifications, which tell other addresses what happens; see what was delivered, and ' +
    'send it again',
} as const;

export type Scope = keyof typeof scopes;

/** `any`: a token with any scope. `never`: no token, only the user. `none`: no credentials. */
export type RouteScope = Scope | 'any' | 'never' | 'none';

/** The OpenAPI document is made of these. */
export interface RouteDescription {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Parameters as `:name`: identifiers, except names that end in `_name`, which are texts. */
  path: string;
  access: Access;
  /** For a route of an account's own records: the role that it asks for if an organisation owns them. */
  inOrganisation?: Exclude<Role, 'public'> | undefined;
  scope: RouteScope;
  /** Whether credentials of some projects are good for it: by default, for the routes of a project alone. */
  forSomeProjects?: boolean;
  summary: string;
  body?: FieldSet;
  query?: FieldSet;
  /** The route starts builds or deploys, which the project's owner pays for. */
  startsWork?: boolean;
  /** The route creates other work for runners. A draining server refuses both. */
  makesWork?: boolean;
  paged?: boolean;
  /** The work ends if the caller disconnects. */
  endsWithCaller?: boolean;
  /** The content types of a streamed response, outside the envelope. */
  streams?: readonly string[] | undefined;
  /** The connection becomes a WebSocket. It counts as a stream without content types. */
  connects?: boolean;
  /** Other content types of the response, by the header `Accept`. */
  texts?: readonly string[];
  /** For a streamed response: takes ranges, has a version, consists of events. */
  hasRanges?: boolean;
  hasTag?: boolean;
  hasEvents?: boolean;
  /** The content types of a streamed upload, and the form field that may contain it. */
  uploads?: { types: readonly string[]; field?: string };
  status: 200 | 201;
  answer: TSchema;
  /** Also admits the metrics token. Then there is no caller. */
  takesMetricsToken?: boolean;
  /** If true, the response is never compressed (compression.ts). */
  showsSecrets?: boolean;
}

export interface Incoming {
  readonly id: string;
  readonly url: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: RawGroup;
  readonly body: RawGroup | undefined;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly raw: IncomingMessage;
}

interface StreamHead {
  contentType: string;
  status?: number;
  headers?: Record<string, string>;
}

export interface SocketAnswer {
  mostBytes: number;
  /** Resolves when the connection has ended. `admit` throws if the client is no longer authorized. */
  connect: (socket: WebSocket, client: { signal: AbortSignal; admit: () => unknown }) => Promise<void>;
}

/** Sent while it is created, at the client's pace. */
export type StreamAnswer =
  /** The client has everything: a browser then does not reconnect. */
  | { status: 204 }
  | SocketAnswer
  | (StreamHead & { body: AsyncIterable<string | Uint8Array>; isWorthPacking?: boolean })
  /** Ends when the promise settles. For events that many clients get at once. */
  | (StreamHead & { write: (writer: StreamWriter) => Promise<void> });

/** For responses with headers of their own. Without a record the status is 204. */
export class WithHeaders<Shown = unknown> {
  readonly headers: Record<string, string>;
  readonly record: Shown;

  constructor(headers: Record<string, string>, record: Shown) {
    this.headers = headers;
    this.record = record;
  }
}

/** For a route with `texts`, a caller that asks for one of these types. It is not in the envelope. */
export class TextAnswer {
  readonly contentType: string;
  readonly text: string;

  constructor(contentType: string, text: string) {
    this.contentType = contentType;
    this.text = text;
  }
}

/** `json` is an already serialized response. */
export type Answer =
  | { record: unknown; headers?: Record<string, string> }
  | { page: PageOf<{ id: bigint }> }
  | { stream: StreamAnswer }
  | { text: TextAnswer }
  | { json: string };

/** `admit` runs before the body is read, so that an untrusted body costs nothing. */
export interface Endpoint<Admitted = unknown> extends RouteDescription {
  /** With `earlier`, the call has begun: throws if the caller may do less than then. */
  admit(request: Incoming, earlier?: Admitted): Admitted | Promise<Admitted>;
  /** `signal` is aborted when the client has disconnected, if the response is a stream or the work ends then. */
  perform(request: Incoming, admitted: Admitted, signal?: AbortSignal): Promise<Answer & { status?: number }>;
}
