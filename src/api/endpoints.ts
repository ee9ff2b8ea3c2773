import { admitToAccount, admitToProject, type VisibleProject } from '../auth/projects.ts';
import { authenticate, requireScope, type Caller } from '../auth/callers.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import type { Queries } from '../db/open.ts';
import { readFields } from '../http/fields.ts';
import { pageFields, type Page, type PageOf } from '../http/paging.ts';
import type { Answer, Endpoint, Incoming } from '../http/route.ts';
import { parseId } from '../lib/ids.ts';
import type { Services } from './call.ts';
import { onlyOnce, readIdempotencyKey } from './idempotency.ts';
import type { Route } from './route.ts';

interface Admitted {
  params: Record<string, bigint>;
  caller: Caller | undefined;
  project: VisibleProject | undefined;
}

/** Makes routes ready to serve: who may call, what was sent, one transaction around what writes. */
export function endpointsOf(routes: readonly Route[], services: Services): Endpoint[] {
  return routes.map((route) => ({
    ...route,
    admit: (request: Incoming) => admit(route, services, request),
    perform: (request: Incoming, admitted: unknown) => perform(route, services, request, admitted as Admitted),
  }));
}

async function admit(route: Route, { db }: Services, request: Incoming): Promise<Admitted> {
  if (route.concerns === 'nobody') return { params: {}, caller: undefined, project: undefined };
  const caller = await authenticate(request, db.read);
  requireScope(caller, route.scope);
  const params = readParams(request.params);
  if (route.concerns === 'account') {
    admitToAccount(caller, route.access);
    return { params, caller, project: undefined };
  }
  const { project_id: projectId } = params;
  if (projectId === undefined) throw new Error(`${route.path} names no project`);
  return { params, caller, project: await admitToProject(db.read, caller, projectId, route.access) };
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

async function perform(
  route: Route,
  services: Services,
  request: Incoming,
  admitted: Admitted,
): Promise<Answer & { status?: number }> {
  const { values: query, errors: queryErrors } = readFields(route.query ?? {}, request.query, 'create');
  const { values: page, errors: pageErrors } = readFields(route.paged ? pageFields : {}, request.query, 'create');
  const purpose = route.method === 'PUT' ? 'change' : 'create';
  const { values: input, errors: bodyErrors } = readFields(route.body ?? {}, request.body, purpose);
  const errors = { ...queryErrors, ...pageErrors, ...bodyErrors };
  const callOn = (db: Queries): AnyCall => ({ ...services, ...admitted, db, input, query, page });

  if (Object.keys(errors).length > 0) {
    const call = await loaded(route, callOn(services.db.read));
    throw ApiError.ofFields({ ...(await verified(route, call, input)), ...errors });
  }
  if (route.method === 'GET') return handle(route, callOn(services.db.read), input);

  const { caller } = admitted;
  const key = route.creates && caller ? readIdempotencyKey(request.headers) : undefined;
  return services.db.transaction(async (trx) => {
    if (key === undefined || !caller) return handle(route, callOn(trx), input);
    const asked = [route.method, request.params, route.path, request.body];
    const attempt = { userId: caller.id, key, status: route.status, asked };
    return onlyOnce(trx, services, attempt, () => handle(route, callOn(trx), input));
  });
}

interface AnyCall extends Admitted {
  db: Queries;
  input: unknown;
  query: unknown;
  page: Partial<Page>;
}

/** Most routes neither load nor verify anything: they are spared the detours. */
async function handle(route: Route, call: AnyCall, input: unknown): Promise<Answer> {
  if (route.load) await loaded(route, call);
  if (route.verify) {
    const found = await verified(route, call, input);
    if (Object.keys(found).length > 0) throw ApiError.ofFields(found);
  }
  return toAnswer(route, await route.handle(call as never));
}

async function loaded(route: Route, call: AnyCall): Promise<AnyCall> {
  return route.load ? Object.assign(call, await route.load(call as never)) : call;
}

async function verified(route: Route, call: AnyCall, input: unknown): Promise<FieldErrors> {
  return (await route.verify?.(call as never, input as never)) ?? {};
}

function toAnswer(route: Route, result: unknown): Answer {
  return route.paged ? { page: result as PageOf<{ id: bigint }> } : { record: result };
}
