import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { Caller } from '../auth/callers.ts';
import { addressOf } from '../http/client-address.ts';
import { readFields, unknownFields } from '../http/fields.ts';
import type { FieldSet } from '../../shared/records/fields.ts';
import { hasMetricsToken } from '../http/metrics-token.ts';
import { originOf } from '../http/origin.ts';
import { pageFields, type Page, type PageOf } from '../http/paging.ts';
import { emptyGroup, type RawGroup } from '../../shared/records/raw.ts';
import {
  TextAnswer,
  WithHeaders,
  type Answer,
  type Endpoint,
  type Incoming,
  type StreamAnswer,
} from '../http/route.ts';
import { arriving } from '../http/uploads.ts';
import { admitAnybody, admitCaller, anybody, admit, type AdmissionDeps, type Admitted } from './admission.ts';
import { noteDone } from './audit.ts';
import type { Call, CallDeps } from './call.ts';
import { isKnownKey, onlyOnce, readIdempotencyKey } from './idempotency.ts';
import { publicView } from './public-view.ts';
import { includes } from '../auth/roles.ts';
import { holdRoom, isBounded, type Parents } from './room.ts';
import { routesByName, type FindRoute, type Route } from './route.ts';

export interface EndpointDeps extends CallDeps, Pick<AdmissionDeps, 'publicRate' | 'tokenUses'> {
  /** A proxy on this machine reports the client's address. */
  isBehindProxy: boolean;
  baseUrl?: string | undefined;
  metricsToken?: string | undefined;
  isDraining: () => boolean;
}

/** Adds admission, the reading of fields, and one transaction around each write. */
export function endpointsOf(
  routes: readonly Route[],
  { isBehindProxy, baseUrl, metricsToken, isDraining, publicRate, tokenUses, ...deps }: EndpointDeps,
): Endpoint[] {
  const find = routesByName(routes);
  const admission = { db: deps.db, publicRate, tokenUses };
  const admitTo = async (route: Route, request: Incoming, earlier?: Admitted): Promise<Admitted> => {
    if (route.takesMetricsToken && hasMetricsToken(request.headers, metricsToken)) return anybody;
    if (route.credentials === 'none') return route.path.includes(':') ? admitAnybody(request) : anybody;
    const admitted = await admit(route, admission, request, addressOf(request.raw, isBehindProxy));
    if (earlier) await demandAsMuch(route, deps, admitted, earlier);
    return { ...admitted, isArriving: earlier === undefined && !route.uploads && isStillArriving(route, request) };
  };
  return routes.map((route) => ({
    ...route,
    admit: (request: Incoming, earlier?: unknown) => admitTo(route, request, earlier as Admitted | undefined),
    async perform(request: Incoming, before: unknown, signal?: AbortSignal) {
      const { isArriving = false } = before as Admitted;
      // A body of a few bytes a minute must not keep the rights with which it began.
      const admitted = isArriving ? await admitTo(route, request, before as Admitted) : (before as Admitted);
      return perform(route, deps, { request, signal, isBehindProxy, baseUrl, isDraining, find }, admitted);
    },
  }));
}

function isStillArriving({ method }: Route, { raw }: Incoming): boolean {
  return method !== 'GET' && !raw.complete;
}

/** For a call that has begun. Without a project or an organisation in the path, the record decides who may have it. */
export async function demandAsMuch(route: Route, deps: CallDeps, now: Admitted, earlier: Admitted): Promise<void> {
  if (earlier.project && now.project && !includes(now.project.role, earlier.project.role))
    throw new ApiError('unauthorized');
  if (route.credentials !== 'account') return;
  const nothing = { input: {}, sent: emptyGroup(), query: {}, page: {} };
  const asked = { ...now, db: deps.db.read, within: noFurther, inOrganisation: route.inOrganisation, ...nothing };
  await loaded(route, callWith(deps, { headers: {}, origin: '', address: null, signal: waitsForEver }, asked));
}

/** Most responses that are not streamed are completed even if the caller has disconnected. */
const waitsForEver = new AbortController().signal;

const noFields: FieldSet = Object.freeze({});

interface Performed {
  request: Incoming;
  signal?: AbortSignal | undefined;
  isBehindProxy: boolean;
  baseUrl?: string | undefined;
  isDraining: () => boolean;
  find: FindRoute;
}

export async function perform(
  route: Route,
  deps: CallDeps,
  performed: Performed,
  admitted: Admitted,
): Promise<Answer & { status?: number }> {
  const { inOrganisation } = route;
  const { request, signal = waitsForEver, isBehindProxy, baseUrl, isDraining, find } = performed;
  if ((route.startsWork || route.makesWork) && isDraining()) throw new ApiError('resource_temporary_unavailable');
  const { values: query, errors: queryErrors } = readFields(route.query ?? noFields, request.query, 'create');
  const { values: page, errors: pageErrors } = readFields(route.paged ? pageFields : noFields, request.query, 'create');
  const purpose = route.method === 'PUT' ? 'change' : 'create';
  const { body: fields = noFields } = route;
  const { body: sent = emptyGroup() } = request;
  const { values: input, errors: bodyErrors } = readFields(fields, sent, purpose);
  const unknown = request.body === undefined ? {} : unknownFields(fields, request.body);
  const errors = { ...queryErrors, ...pageErrors, ...unknown, ...bodyErrors };
  const address = addressOf(request.raw, isBehindProxy);
  const around: Surroundings = {
    headers: request.headers,
    origin: originOf(request.raw, baseUrl, !isBehindProxy),
    address,
    signal,
  };
  const callOn = (db: Queries): AnyCall => {
    const within: Call['within'] = (name, params, body) =>
      performWithin(find(name), deps, around, { caller: admitted.caller, params, body, db });
    return callWith(deps, around, { ...admitted, db, within, input, sent, query, page, inOrganisation });
  };

  if (Object.keys(errors).length > 0) {
    const call = await loaded(route, callOn(deps.db.read));
    const found = await verified(route, call, input);
    throw ApiError.ofFields({ ...(await takenNames(route, call, input)), ...found, ...errors });
  }
  const note = (trx: Transaction, call: AnyCall, answer: unknown): Promise<void> =>
    noteDone(route, { trx, ids: deps.ids, address, call, answer });
  if (route.uploads) {
    const call = callOn(deps.db.read);
    const take = (work: (trx: Transaction) => Promise<unknown>): Promise<unknown> =>
      deps.db.transaction(async (trx) => {
        // The body may have taken hours.
        if (signal.reason instanceof ApiError) throw signal.reason;
        await loaded(route, callOn(trx));
        const answer = await work(trx);
        await note(trx, call, answer);
        return answer;
      });
    return toAnswer(
      route,
      await handle(route, Object.assign(call, { upload: arriving(request.raw, signal), take }), input),
    );
  }
  if (route.method === 'GET') {
    const answer = toAnswer(route, await handle(route, callOn(deps.db.read), input));
    return admitted.project?.role === 'public' ? publicView(answer) : answer;
  }

  const finished = async (made: Answer): Promise<Answer> => {
    if (!route.follow || !('record' in made)) return made;
    return toAnswer(route, await route.follow(callOn(deps.db.read) as never, made.record as never));
  };
  const { caller } = admitted;
  const isUser = caller !== undefined && caller.via !== 'build';
  const key = route.creates && isUser ? readIdempotencyKey(request.headers) : undefined;
  const isRepeated = key !== undefined && caller !== undefined && (await isKnownKey(deps.db.read, caller.id, key));
  const asked = route.ask && !isRepeated ? await answersFor(route, callOn(deps.db.read), input) : {};
  const transaction = deps.db.transaction<Answer & { status?: number }>(async (trx) => {
    const work = async (): Promise<Answer> => {
      const call = Object.assign(callOn(trx), asked);
      const answer = await handle(route, call, input);
      await note(trx, call, answer);
      if (route.isTrial?.(input as never)) throw new Undone(toAnswer(route, answer));
      return toAnswer(route, answer);
    };
    if (key === undefined || !caller) return work();
    const parts = [route.method, request.params, route.path, request.body];
    const attempt = { userId: caller.id, key, status: route.status, asked: parts };
    return onlyOnce(trx, deps, attempt, work);
  });
  const made = await transaction.catch(async (error: unknown) => {
    if (error instanceof Undone) return error.answer;
    await route.undo?.(callOn(deps.db.read) as never, asked as never);
    throw error;
  });
  return finished(made);
}

/** Rolls back the transaction of a trial. Only the response remains. */
class Undone extends Error {
  readonly answer: Answer;

  constructor(answer: Answer) {
    super('a trial is undone');
    this.answer = answer;
  }
}

interface InnerCall {
  caller: Admitted['caller'];
  params: Readonly<Record<string, bigint>>;
  body: RawGroup | undefined;
  db: Queries;
}

interface Surroundings {
  headers: Incoming['headers'];
  origin: string;
  address: string | null;
  signal: AbortSignal;
}

/** Calls of routes in a transaction without a request, for a known caller. */
export function callsWithin(
  routes: readonly Route[],
  deps: CallDeps,
  origin: string,
): (caller: Caller, db: Transaction) => Call['within'] {
  const find = routesByName(routes);
  const around: Surroundings = { headers: {}, origin, address: null, signal: waitsForEver };
  return (caller, db) => (name, params, body) => performWithin(find(name), deps, around, { caller, params, body, db });
}

async function noFurther(): Promise<never> {
  throw new Error('a route that is called by another calls none itself');
}

/** A call by another route, in its transaction. A throw ends the transaction of both. */
async function performWithin(
  route: Route,
  deps: CallDeps,
  around: Surroundings,
  { caller, params, body = emptyGroup(), db }: InnerCall,
): Promise<unknown> {
  if (!caller || route.uploads || route.paged || route.follow || route.startsWork || route.streams)
    throw new Error(`${route.path} cannot be called by another route`);
  const named = Object.fromEntries(Object.entries(params).map(([name, id]) => [name, String(id)]));
  // In the same transaction, which may have created the project.
  const admitted = await admitCaller(route, { db: { read: db }, publicRate: undefined }, caller, named);
  const fields = route.body ?? noFields;
  const { values: input, errors } = readFields(fields, body, route.method === 'PUT' ? 'change' : 'create');
  const wrong = { ...unknownFields(fields, body), ...errors };
  if (Object.keys(wrong).length > 0) throw ApiError.ofFields(wrong);
  const call = callWith(deps, around, {
    ...admitted,
    db,
    within: noFurther,
    inOrganisation: route.inOrganisation,
    input,
    sent: body,
    query: {},
    page: {},
  });
  const answer = await handle(route, call, input);
  if (route.method !== 'GET')
    await noteDone(route, { trx: db as Transaction, ids: deps.ids, address: around.address, call, answer });
  return answer;
}

interface CallParts extends Admitted, Pick<Route, 'inOrganisation'> {
  db: Queries;
  within: Call['within'];
  input: unknown;
  sent: RawGroup;
  query: unknown;
  page: Partial<Page>;
}

interface AnyCall extends CallParts {
  database: CallDeps['db'];
  headers: Incoming['headers'];
  origin: string;
  address: string | null;
  signal: AbortSignal;
  suite?: { id: bigint };
  /** The owner of a new record, if that may be an organisation. */
  account?: bigint;
}

function callWith(deps: CallDeps, around: Surroundings, parts: CallParts): AnyCall {
  return { ...deps, database: deps.db, ...around, ...parts };
}

/** Most routes have no `load` or `verify`, and skip those steps. */
async function handle(route: Route, call: AnyCall, input: unknown): Promise<unknown> {
  const answer = await work(route, call, input);
  const table = route.creates ?? route.changes;
  if (table !== undefined && isBounded(table))
    await holdRoom(call.database, call.db as Transaction, table, parentsOf(call));
  return answer;
}

/** An account's own records belong to the caller or the organisation that is named, and a project's to its owner. */
function parentsOf({ caller, project, organisation, account, suite }: AnyCall): Parents {
  return {
    ...(project ? { project: project.id, account: project.owner_id } : caller && { account: account ?? caller.id }),
    ...(organisation && { organisation: organisation.id, account: organisation.id }),
    ...(suite && { suite: suite.id }),
  };
}

async function work(route: Route, call: AnyCall, input: unknown): Promise<unknown> {
  if (route.load) await loaded(route, call);
  if (route.verify) {
    const found = await verified(route, call, input);
    if (Object.keys(found).length > 0) throw ApiError.ofFields({ ...(await takenNames(route, call, input)), ...found });
  }
  return route.handle(call as never);
}

/** Other services are called only once the request itself is valid. */
async function answersFor(route: Route, call: AnyCall, input: unknown): Promise<object> {
  await loaded(route, call);
  const found = { ...(await takenNames(route, call, input)), ...(await verified(route, call, input)) };
  if (Object.keys(found).length > 0) throw ApiError.ofFields(found);
  return (await route.ask?.(call as never)) ?? {};
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
  if (result instanceof TextAnswer) return { text: result };
  if (result instanceof WithHeaders) return { record: result.record, headers: result.headers };
  return route.paged ? { page: result as PageOf<{ id: bigint }> } : { record: result };
}
