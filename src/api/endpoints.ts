import { admitToAccount, admitToProject, type VisibleProject } from '../auth/projects.ts';
import { authorizationOf } from '../auth/authorization.ts';
import { authenticate, requireScope, type Caller } from '../auth/callers.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { tokenName, useResolution } from '../auth/tokens.ts';
import type { SnapshotCache } from '../db/snapshot-cache.ts';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { readFields, unknownFields, type FieldSet } from '../http/fields.ts';
import { pageFields, type Page, type PageOf } from '../http/paging.ts';
import { emptyGroup } from '../http/raw.ts';
import type { Answer, Endpoint, Incoming, StreamAnswer } from '../http/route.ts';
import { arriving } from '../http/uploads.ts';
import { parseId } from '../lib/ids.ts';
import { SharedWork } from '../lib/shared-work.ts';
import { noteDone } from './audit.ts';
import type { Services } from './call.ts';
import { onlyOnce, readIdempotencyKey } from './idempotency.ts';
import type { Route } from './route.ts';

export interface Admitted {
  params: Record<string, bigint>;
  caller: Caller | undefined;
  project: VisibleProject | undefined;
  /** The hour in which it was found out. */
  hour?: number;
  /** What was answered to others who were admitted just so, by the address they asked for. */
  answers?: Map<string, string>;
}

/** What endpoints have beside what they hand to handlers. */
export interface EndpointServices extends Services {
  /** Whether a proxy on this machine says where requests come from. */
  isBehindProxy: boolean;
}

/** Makes routes ready to serve: who may call, what was sent, one transaction around what writes. */
export function endpointsOf(routes: readonly Route[], { isBehindProxy, ...services }: EndpointServices): Endpoint[] {
  const judgements: Judgements = new SharedWork();
  return routes.map((route) => ({
    ...route,
    admit: (request: Incoming) => admit(route, services.db, judgements, request),
    perform: (request: Incoming, admitted: unknown, signal?: AbortSignal) =>
      perform(route, services, { request, signal, isBehindProxy }, admitted as Admitted),
    ...(isKept(route) ? { recall: (request, admitted) => (admitted as Admitted).answers?.get(request.url) } : {}),
  }));
}

/** Answers that are made at once are made whole, whether the caller is still there or not. */
const waitsForEver = new AbortController().signal;

const noFields: FieldSet = {};

const anybody: Admitted = { params: {}, caller: undefined, project: undefined };

/**
 * Who calls is found out on every request. While nothing was committed since the last time the very same credentials
 * were found good for the very same thing, that they are the same is all there is to find out. Each hour begins anew,
 * so that the use of a token is noted also where nobody writes anything.
 */
function admit(route: Route, db: Database, judgements: Judgements, request: Incoming): Admitted | Promise<Admitted> {
  if (route.concerns === 'nobody') return anybody;
  const name = nameOf(route, request);
  const judgeNow = (): Promise<Admitted> => judgements.do(name, () => judge(route, db, request));
  // What is about to be written changes what is known: there is nothing to be remembered for it.
  if (!db.inTurns && route.method !== 'GET') return judgeNow();
  const cache = db.cache();
  return cache instanceof Promise
    ? cache.then((current) => recall(name, current, judgeNow))
    : recall(name, cache, judgeNow);
}

/** Those who come with the same credentials for the same thing at the same time are judged together. */
type Judgements = SharedWork<Admitted>;

function recall(name: string, cache: SnapshotCache, judgeNow: () => Promise<Admitted>): Admitted | Promise<Admitted> {
  const known = cache.get(name) as Admitted | undefined;
  const hour = Math.floor(Date.now() / useResolution);
  if (known?.hour === hour) return known;
  const { asOf } = cache;
  return judgeNow().then((admitted) => {
    admitted.hour = hour;
    cache.set(name, admitted, asOf);
    return admitted;
  });
}

/** Everything that the judgement depends on beside the store and the hour. */
function nameOf({ method }: Route, request: Incoming): string {
  const { url } = request;
  const queryAt = url.indexOf('?');
  const path = queryAt < 0 ? url : url.slice(0, queryAt);
  return `${method} ${path} ${String(authorizationOf(request))} ${tokenName(request)}`;
}

async function judge(route: Route, db: Database, request: Incoming): Promise<Admitted> {
  return admitCaller(route, db, await authenticate(request, db), request.params);
}

/** What somebody who is known already is admitted to. */
export async function admitCaller(
  route: Route,
  db: Database,
  caller: Caller,
  rawParams: Readonly<Record<string, string>>,
): Promise<Admitted> {
  requireScope(caller, route.scope);
  const params = readParams(rawParams);
  if (route.concerns === 'account') {
    const isForEverybody = await route.isForEverybody?.({ db: db.read, caller, params } as never);
    if (!isForEverybody) admitToAccount(caller, route.access);
    return { params, caller, project: undefined };
  }
  const { project_id: projectId } = params;
  if (projectId === undefined) throw new Error(`${route.path} names no project`);
  return { params, caller, project: await admitToProject(db.read, caller, projectId, route) };
}

/** Longer answers are worked out each time: what is kept must stay small. */
const longestKept = 4096;
const mostKept = 4;

/**
 * While nothing is committed, the same question of the same caller has the same answer. Pages come with a header,
 * streams have no end, and what is open to anybody costs nothing.
 */
function isKept(route: Route): boolean {
  const isFixed = !route.paged && !route.streams && route.goesByTheClock !== true;
  return route.method === 'GET' && isFixed && route.concerns !== 'nobody';
}

function readParams(raw: Readonly<Record<string, string>>): Record<string, bigint> {
  const params: Record<string, bigint> = {};
  for (const name of Object.keys(raw)) {
    const id = parseId(raw[name] ?? '');
    if (id === undefined) throw new ApiError('not_found');
    params[name] = id;
  }
  return params;
}

/** A request that is performed. */
interface Performed {
  request: Incoming;
  signal?: AbortSignal | undefined;
  /** Whether a proxy on this machine says where requests come from. */
  isBehindProxy: boolean;
}

export async function perform(
  route: Route,
  services: Services,
  { request, signal = waitsForEver, isBehindProxy }: Performed,
  admitted: Admitted,
): Promise<Answer & { status?: number }> {
  const { values: query, errors: queryErrors } = readFields(route.query ?? noFields, request.query, 'create');
  const { values: page, errors: pageErrors } = readFields(route.paged ? pageFields : noFields, request.query, 'create');
  const purpose = route.method === 'PUT' ? 'change' : 'create';
  const { body: fields = noFields } = route;
  const { values: input, errors: bodyErrors } = readFields(fields, request.body ?? emptyGroup(), purpose);
  const unknown = request.body === undefined ? {} : unknownFields(fields, request.body);
  const errors = { ...queryErrors, ...pageErrors, ...unknown, ...bodyErrors };
  const callOn = (db: Queries): AnyCall => ({
    ...services,
    database: services.db,
    ...admitted,
    headers: request.headers,
    signal,
    db,
    input,
    query,
    page,
  });

  if (Object.keys(errors).length > 0) {
    const call = await loaded(route, callOn(services.db.read));
    const found = await verified(route, call, input);
    throw ApiError.ofFields({ ...(await takenNames(route, call, input)), ...found, ...errors });
  }
  const note = (trx: Transaction, call: AnyCall, answer: unknown): Promise<void> =>
    noteDone(route, { trx, ids: services.ids, request, isBehindProxy, call, answer });
  if (route.uploads) {
    const call = callOn(services.db.read);
    const take = (work: (trx: Transaction) => Promise<unknown>): Promise<unknown> =>
      services.db.transaction(async (trx) => {
        const answer = await work(trx);
        await note(trx, call, answer);
        return answer;
      });
    return toAnswer(route, await handle(route, Object.assign(call, { upload: arriving(request.raw), take }), input));
  }
  if (route.method === 'GET') {
    const answer = toAnswer(route, await handle(route, callOn(services.db.read), input));
    if (!isKept(route) || !('record' in answer)) return answer;
    // Kept with the judgement: had anything been committed since that was made, neither is found again.
    const keep = (text: string): void => {
      if (text.length > longestKept) return;
      admitted.answers ??= new Map();
      if (admitted.answers.size < mostKept) admitted.answers.set(request.url, text);
    };
    return { ...answer, keep };
  }

  const finished = async (made: Answer): Promise<Answer> => {
    if (!route.follow || !('record' in made)) return made;
    return toAnswer(route, await route.follow(callOn(services.db.read) as never, made.record as never));
  };
  const { caller } = admitted;
  const key = route.creates && caller ? readIdempotencyKey(request.headers) : undefined;
  const made = await services.db.transaction<Answer & { status?: number }>(async (trx) => {
    const work = async (): Promise<Answer> => {
      const call = callOn(trx);
      const answer = await handle(route, call, input);
      await note(trx, call, answer);
      return toAnswer(route, answer);
    };
    if (key === undefined || !caller) return work();
    const asked = [route.method, request.params, route.path, request.body];
    const attempt = { userId: caller.id, key, status: route.status, asked };
    return onlyOnce(trx, services, attempt, work);
  });
  return finished(made);
}

interface AnyCall extends Admitted {
  db: Queries;
  database: Services['db'];
  headers: Incoming['headers'];
  signal: AbortSignal;
  input: unknown;
  query: unknown;
  page: Partial<Page>;
}

/** Most routes neither load nor verify anything: they are spared the detours. */
async function handle(route: Route, call: AnyCall, input: unknown): Promise<unknown> {
  if (route.load) await loaded(route, call);
  if (route.verify) {
    const found = await verified(route, call, input);
    if (Object.keys(found).length > 0) throw ApiError.ofFields({ ...(await takenNames(route, call, input)), ...found });
  }
  return route.handle(call as never);
}

async function loaded(route: Route, call: AnyCall): Promise<AnyCall> {
  return route.load ? Object.assign(call, await route.load(call as never)) : call;
}

async function verified(route: Route, call: AnyCall, input: unknown): Promise<FieldErrors> {
  return (await route.verify?.(call as never, input as never)) ?? {};
}

async function takenNames(route: Route, call: AnyCall, input: unknown): Promise<FieldErrors> {
  return (await route.verifyNames?.(call as never, input as never)) ?? {};
}

function toAnswer(route: Route, result: unknown): Answer {
  if (route.streams) return { stream: result as StreamAnswer };
  return route.paged ? { page: result as PageOf<{ id: bigint }> } : { record: result };
}
