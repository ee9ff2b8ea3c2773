import type { Action, Facts } from '../auth/audit.ts';
import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import type { FieldSet, NoFields, ValuesOf } from '../../shared/records/fields.ts';
import type { Static, TArray, TSchema } from 'typebox';
import type { PageOf } from '../http/paging.ts';
import type { RouteDescription, StreamAnswer, TextAnswer, WithHeaders } from '../http/route.ts';
import type { BoundedTable } from '../../shared/domain/bounds.ts';
import type { Call, RouteName, WithCaller, WithOrganisation, WithProject, WithUpload } from './call.ts';

/** Plain data: the dependencies come with each call. */
export interface Route<
  M extends Method = Method,
  Path extends string = string,
  Answer extends TSchema = TSchema,
> extends RouteDescription {
  method: M;
  path: Path;
  answer: Answer;
  /** The caller is admitted to this before the handler runs. */
  credentials: 'none' | 'account' | 'organisation' | 'project';
  /** For a POST: answered with 201, and repeatable with an Idempotency-Key. */
  creates?: Created | undefined;
  /** For a PUT of a record whose texts share a limit with its neighbours. */
  changes?: BoundedTable | undefined;
  /** True admits every account to the record, regardless of `access`. */
  isForEverybody?(call: never): Promise<boolean>;
  load?(call: never): Promise<object>;
  verify?(call: never, values: never): Promise<FieldErrors>;
  verifyNames?(call: never, values: never): Promise<FieldErrors>;
  ask?(call: never): Promise<object>;
  undo?(call: never, asked: never): Promise<void>;
  handle(call: never): Promise<unknown>;
  isTrial?(values: never): boolean;
  follow?(call: never, made: never): Promise<unknown>;
  audit?: Audit<never> | 'nothing';
}

/**
 * Records have limits (domain/bounds.ts). Operators create accounts, waiting work has its own limit
 * (lifecycle/full-queue.ts), and an upload replaces its dependency's last one.
 */
export type Created = BoundedTable | 'account' | 'organisation' | 'work' | 'upload';

/** By name of the route: a record, a list, or the rows of a paged list. */
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

/** For a PUT, the record before the change. */
export interface Subject {
  id: bigint;
  name: string;
}

export interface Audit<Context> {
  action: Action;
  /** The default is the answered record. Undefined means that nothing changed: no entry is written. */
  subject?: (call: Context) => Subject | undefined;
  details?: (call: Context) => Facts;
}

type Audited<M extends Method, Context> = M extends 'GET' ? object : { audit: Audit<Context> | 'nothing' };

type Method = RouteDescription['method'];

type Handled<Answer extends TSchema, Paged, Streams> = [Streams] extends [readonly string[]]
  ? StreamAnswer
  : Paged extends true
    ? PageOf<Answer extends TArray<infer Item> ? Static<Item> : never>
    : Static<Answer> | WithHeaders<Static<Answer> | undefined> | TextAnswer;

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
  /** Loads the record in the path. The result is added to the call. */
  load?(call: Call<M, Path, Body, Query> & Context): Promise<Loaded>;
  /** Checks the valid values against the store. */
  verify?(call: Call<M, Path, Body, Query> & Context & Loaded, values: Partial<ValuesOf<Body>>): Promise<FieldErrors>;
  /** Reports taken names together with other errors. Without other errors the store itself refuses them. */
  verifyNames?(
    call: Call<M, Path, Body, Query> & Context & Loaded,
    values: Partial<ValuesOf<Body>>,
  ): Promise<FieldErrors>;
  /**
   * Calls another service before the transaction, because a waiting transaction would block other requests. Skipped if
   * another route calls this one.
   */
  ask?(call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded): Promise<Asked>;
  /** Reverts the effects of `ask` if the transaction fails. */
  undo?(
    call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded,
    asked: NoInfer<Asked>,
  ): Promise<void>;
  /** Returns the response, or the input of `follow`. */
  handle(
    call: Call<M, Path, Body, Query> & Context & Loaded & Partial<NoInfer<Asked>>,
  ): Promise<[NoInfer<Begun>] extends [never] ? Handled<NoInfer<Answer>, Paged, Streams> : NoInfer<Begun>>;
  /** True for a trial: it is done, answered, and rolled back. */
  isTrial?(values: Partial<ValuesOf<Body>>): boolean;
  /** Waits for further work after the transaction, without one. Gets the result of `handle`. */
  follow?(
    call: Omit<Call<M, Path, Body, Query>, 'db'> & { db: Queries } & Context & Loaded,
    made: Begun,
  ): Promise<Static<NoInfer<Answer>>>;
}

/** The handlers get `Context` in addition to the call. */
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

export const openRoute: RouteConstructor<object> = (definition) => complete(definition, 'none');
export const accountRoute: RouteConstructor<WithCaller> = (definition) => complete(definition, 'account');
export const organisationRoute: RouteConstructor<WithOrganisation> = (definition) =>
  complete(definition, 'organisation');
export const projectRoute: RouteConstructor<WithProject> = (definition) => complete(definition, 'project');

/**
 * Streams a body of any length, perhaps for hours. So the handler opens its own transaction once the body is complete.
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

export function complete<M extends Method, Path extends string, Answer extends TSchema>(
  definition: Omit<Route<M, Path, Answer>, 'status' | 'credentials' | 'paged' | 'streams'> & {
    paged?: boolean;
    streams?: readonly string[] | undefined;
  },
  credentials: Route['credentials'],
): Route<M, Path, Answer> {
  return { ...definition, credentials, status: definition.creates === undefined ? 200 : 201 };
}
