import type { Action, Facts } from '../auth/audit.ts';
import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../errors.ts';
import type { FieldSet, NoFields, ValuesOf } from '../http/fields.ts';
import type { RouteDescription } from '../http/route.ts';
import type { Call, WithCaller, WithProject, WithUpload } from './call.ts';

/** A route of the API. Plain data: what it needs to work comes with each call. */
export interface Route extends RouteDescription {
  /** What the caller is admitted to before the handler runs. */
  concerns: 'nobody' | 'account' | 'project';
  /** A POST that makes something: answered with 201, and safe to repeat under an Idempotency-Key. */
  creates: boolean;
  /** Whether every account is admitted to what the path names, whatever `access` says. */
  isForEverybody?(call: never): Promise<boolean>;
  /** A GET whose answer changes while nothing is written: it is worked out each time. */
  goesByTheClock?: boolean;
  load?(call: never): Promise<object>;
  verify?(call: never, values: never): Promise<FieldErrors>;
  verifyNames?(call: never, values: never): Promise<FieldErrors>;
  handle(call: never): Promise<unknown>;
  follow?(call: never, made: never): Promise<unknown>;
  /** What the audit log is told; only what reads has nothing to say here. */
  audit?: Audit<never> | 'nothing';
}

/** What a change was made to: for a PUT, the record as it was. */
export interface Subject {
  id: bigint;
  name: string;
}

/** What the audit log says of a change. */
export interface Audit<Context> {
  action: Action;
  /** By default what the answer shows. Where nothing changed it answers nothing, and nothing is written down. */
  subject?: (call: Context) => Subject | undefined;
  /** Beside the names of the fields that a PUT changed, which are always there. */
  details?: (call: Context) => Facts;
}

/** What changes something says what is written down about it, or that it is nothing. */
type Audited<M extends Method, Context> = M extends 'GET' ? object : { audit: Audit<Context> | 'nothing' };

type Method = RouteDescription['method'];

interface Definition<
  M extends Method,
  Path extends string,
  Body extends FieldSet,
  Query extends FieldSet,
  Context,
  Loaded,
> extends Omit<RouteDescription, 'status' | 'body' | 'query'> {
  method: M;
  path: Path;
  body?: Body;
  query?: Query;
  creates?: M extends 'POST' ? boolean : never;
  isForEverybody?(call: Pick<Call<M, Path>, 'params'> & { db: Queries } & Context): Promise<boolean>;
  goesByTheClock?: M extends 'GET' ? boolean : never;
  /** Finds what the path names below the project or account; what it answers is added to the call. */
  load?(call: Call<M, Path, Body, Query> & Context): Promise<Loaded>;
  /** Looks in the store for what is wrong with the values that could be read. */
  verify?(call: Call<M, Path, Body, Query> & Context & Loaded, values: Partial<ValuesOf<Body>>): Promise<FieldErrors>;
  /**
   * Reports names that are taken, when something else is wrong already: so that a caller hears of everything at once.
   * When nothing is, the handler need not look first: the store refuses a name that is taken.
   */
  verifyNames?(
    call: Call<M, Path, Body, Query> & Context & Loaded,
    values: Partial<ValuesOf<Body>>,
  ): Promise<FieldErrors>;
  /** Answers the record or list; a page where the route is paged. */
  handle(call: Call<M, Path, Body, Query> & Context & Loaded): Promise<unknown>;
  /**
   * For what is not over with the transaction: waits, once that is durable, for what came of it, and answers that. It is
   * given what `handle` answered, and no transaction: to wait in one would hold up everybody else.
   */
  follow?(
    call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded,
    made: never,
  ): Promise<unknown>;
}

/** Makes routes whose handlers are given `Context` beside the call itself. */
interface RouteConstructor<Context> {
  <
    M extends Method,
    Path extends string,
    Body extends FieldSet = NoFields,
    Query extends FieldSet = NoFields,
    Loaded extends object = object,
  >(
    definition: Definition<M, Path, Body, Query, Context, Loaded> &
      Audited<M, Call<M, Path, Body, Query> & Context & Loaded>,
  ): Route;
}

/** Needs no credentials. */
export const openRoute: RouteConstructor<object> = (definition) => complete(definition, 'nobody');
/** Concerns the caller's own account. */
export const accountRoute: RouteConstructor<WithCaller> = (definition) => complete(definition, 'account');
/** Concerns the project in its path. */
export const projectRoute: RouteConstructor<WithProject> = (definition) => complete(definition, 'project');

/**
 * Takes a body of any length, as it arrives, for the caller's own account. That may take hours, so the handler is given
 * no transaction around it: it opens its own once everything is there.
 */
export function uploadRoute<Path extends string, Loaded extends object = object>(
  definition: Omit<Definition<'GET', Path, NoFields, NoFields, WithCaller & WithUpload, Loaded>, 'method'> & {
    uploads: NonNullable<RouteDescription['uploads']>;
    audit: Audit<Call<'GET', Path> & WithCaller & Loaded> | 'nothing';
  },
): Route {
  return complete({ ...definition, method: 'POST' }, 'account');
}

function complete(
  definition: Omit<Route, 'status' | 'creates' | 'concerns'> & { creates?: boolean },
  concerns: Route['concerns'],
): Route {
  const creates = definition.creates ?? false;
  return { ...definition, concerns, creates, status: creates ? 201 : 200 };
}
