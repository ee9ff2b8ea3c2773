import type { Action, Facts } from '../auth/audit.ts';
import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import type { FieldSet, NoFields, ValuesOf } from '../../shared/records/fields.ts';
import type { Static, TArray, TSchema } from 'typebox';
import type { PageOf } from '../http/paging.ts';
import type { RouteDescription, StreamAnswer, WithHeaders } from '../http/route.ts';
import type { BoundedTable } from '../../shared/domain/bounds.ts';
import type { Call, RouteName, WithCaller, WithProject, WithUpload } from './call.ts';

/** A route of the API. Plain data: the services it needs come with each call. */
export interface Route<
  M extends Method = Method,
  Path extends string = string,
  Answer extends TSchema = TSchema,
> extends RouteDescription {
  method: M;
  path: Path;
  answer: Answer;
  /** The caller is admitted to this before the handler runs. */
  concerns: 'nobody' | 'account' | 'project';
  /** A POST that creates a record: answered with 201, and safe to repeat with an Idempotency-Key. */
  creates?: Created | undefined;
  /** A PUT that changes a record, whose texts have a bound together with those of its neighbours. */
  changes?: BoundedTable | undefined;
  /** Whether every account is admitted to the record in the path, whatever `access` says. */
  isForEverybody?(call: never): Promise<boolean>;
  load?(call: never): Promise<object>;
  verify?(call: never, values: never): Promise<FieldErrors>;
  verifyNames?(call: never, values: never): Promise<FieldErrors>;
  ask?(call: never): Promise<object>;
  undo?(call: never, asked: never): Promise<void>;
  handle(call: never): Promise<unknown>;
  isTrial?(values: never): boolean;
  follow?(call: never, made: never): Promise<unknown>;
  /** The audit entry; only GET routes may leave it out. */
  audit?: Audit<never> | 'nothing';
}

/**
 * What a route creates. Records have a bound (domain/bounds.ts); accounts are made by operators, of work there is as much as
 * may wait (lifecycle/full-queue.ts), and an upload replaces the last one of its dependency.
 */
export type Created = BoundedTable | 'account' | 'work' | 'upload';

/** What the routes of a list answer, by their names: the record or list; of a paged list, its rows. */
export type AnswersOf<Routes extends readonly Route[]> = {
  [One in Routes[number] as `${One['method']} ${One['path']}`]: Static<One['answer']>;
};

export type FindRoute = (name: RouteName) => Route;

export function routesByName(routes: readonly Route[]): FindRoute {
  const byName = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  return (name) => {
    const route = byName.get(name);
    if (!route) throw new Error(`there is no route ${name}`);
    return route;
  };
}

/** The subject of a change: for a PUT, the record before the change. */
export interface Subject {
  id: bigint;
  name: string;
}

/** The audit entry of a change. */
export interface Audit<Context> {
  action: Action;
  /** By default the answered record. Where nothing changed it returns undefined, and no entry is written. */
  subject?: (call: Context) => Subject | undefined;
  /** In addition to the names of the fields that a PUT changed. */
  details?: (call: Context) => Facts;
}

/** A route that changes data declares its audit entry, or that there is none. */
type Audited<M extends Method, Context> = M extends 'GET' ? object : { audit: Audit<Context> | 'nothing' };

type Method = RouteDescription['method'];

/** What a handler returns: a stream, a page of a list, or the record, maybe with headers of its own. */
type Handled<Answer extends TSchema, Paged, Streams> = [Streams] extends [readonly string[]]
  ? StreamAnswer
  : Paged extends true
    ? PageOf<Answer extends TArray<infer Item> ? Static<Item> : never>
    : Static<Answer> | WithHeaders<Static<Answer> | undefined>;

interface Definition<
  M extends Method,
  Path extends string,
  Answer extends TSchema,
  Body extends FieldSet,
  Query extends FieldSet,
  Context,
  Loaded,
  Paged extends boolean,
  Streams extends readonly string[] | undefined,
  Begun,
  Asked,
> extends Omit<RouteDescription, 'status' | 'body' | 'query' | 'answer' | 'paged' | 'streams'> {
  method: M;
  path: Path;
  answer: Answer;
  paged?: Paged;
  streams?: Streams;
  body?: Body;
  query?: Query;
  creates?: M extends 'POST' ? Created : never;
  changes?: M extends 'PUT' ? BoundedTable : never;
  isForEverybody?(call: Pick<Call<M, Path>, 'params'> & { db: Queries } & Context): Promise<boolean>;
  /** Loads the record in the path below the project or account; the result is added to the call. */
  load?(call: Call<M, Path, Body, Query> & Context): Promise<Loaded>;
  /** Checks the readable values against the store. */
  verify?(call: Call<M, Path, Body, Query> & Context & Loaded, values: Partial<ValuesOf<Body>>): Promise<FieldErrors>;
  /**
   * Reports names that are taken, when there are other errors already, so that the caller gets all errors at once.
   * Without other errors this check is not needed: the store refuses a taken name.
   */
  verifyNames?(
    call: Call<M, Path, Body, Query> & Context & Loaded,
    values: Partial<ValuesOf<Body>>,
  ): Promise<FieldErrors>;
  /**
   * Asks another service before the transaction begins, because that may take seconds: waiting in a transaction would block
   * others. The result is added to the call. A route that is called by another asks nobody.
   */
  ask?(call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded): Promise<Asked>;
  /** Takes back what `ask` has done elsewhere, if the transaction fails. */
  undo?(
    call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded,
    asked: NoInfer<Asked>,
  ): Promise<void>;
  /** Returns what is answered; where the work continues after the transaction, what `follow` needs to know of it. */
  handle(
    call: Call<M, Path, Body, Query> & Context & Loaded & Partial<NoInfer<Asked>>,
  ): Promise<[NoInfer<Begun>] extends [never] ? Handled<NoInfer<Answer>, Paged, Streams> : NoInfer<Begun>>;
  /** Whether the caller only wants to know what would be done: then it is done, answered, and undone. */
  isTrial?(values: Partial<ValuesOf<Body>>): boolean;
  /**
   * For work that continues after the transaction: waits, once the transaction is durable, for its outcome, and returns
   * that. It gets the result of `handle`, and no transaction: waiting in a transaction would block others.
   */
  follow?(
    call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded,
    made: Begun,
  ): Promise<Static<NoInfer<Answer>>>;
}

/** Makes routes whose handlers get `Context` in addition to the call. */
export interface RouteConstructor<Context> {
  <
    M extends Method,
    Path extends string,
    Answer extends TSchema,
    Body extends FieldSet = NoFields,
    Query extends FieldSet = NoFields,
    Loaded extends object = object,
    Paged extends boolean = false,
    const Streams extends readonly string[] | undefined = undefined,
    Begun = never,
    Asked extends object = object,
  >(
    definition: Definition<M, Path, Answer, Body, Query, Context, Loaded, Paged, Streams, Begun, Asked> &
      Audited<M, Call<M, Path, Body, Query> & Context & Loaded & Partial<NoInfer<Asked>>>,
  ): Route<M, Path, Answer>;
}

/** Needs no credentials. */
export const openRoute: RouteConstructor<object> = (definition) => complete(definition, 'nobody');
/** Concerns the caller's own account. */
export const accountRoute: RouteConstructor<WithCaller> = (definition) => complete(definition, 'account');
/** Concerns the project in its path. */
export const projectRoute: RouteConstructor<WithProject> = (definition) => complete(definition, 'project');

/**
 * Takes a body of any length, as it arrives, for the caller's own account. That may take hours, so the handler gets no
 * transaction: it opens its own once the body is complete.
 */
export function uploadRoute<
  M extends 'POST' | 'PATCH',
  Path extends string,
  Answer extends TSchema,
  Loaded extends object = object,
>(
  definition: Omit<
    Definition<
      'GET',
      Path,
      Answer,
      NoFields,
      NoFields,
      WithCaller & WithUpload,
      Loaded,
      false,
      undefined,
      never,
      object
    >,
    'method'
  > & {
    method: M;
    uploads: NonNullable<RouteDescription['uploads']>;
    audit: Audit<Call<'GET', Path> & WithCaller & Loaded> | 'nothing';
  },
): Route<M, Path, Answer> {
  return complete(definition, 'account');
}

function complete<M extends Method, Path extends string, Answer extends TSchema>(
  definition: Omit<Route<M, Path, Answer>, 'status' | 'concerns' | 'paged' | 'streams'> & {
    paged?: boolean;
    streams?: readonly string[] | undefined;
  },
  concerns: Route['concerns'],
): Route<M, Path, Answer> {
  return { ...definition, concerns, status: definition.creates === undefined ? 200 : 201 };
}
