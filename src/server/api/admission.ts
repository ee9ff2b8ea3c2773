import { admitToOrganisation, type Organisation } from '../auth/organisations.ts';
import { admitToAccount, admitToProject, type VisibleProject } from '../auth/projects.ts';
import {
  anonymous,
  authenticate,
  requireScope,
  sendsCredentials,
  type Authentication,
  type Caller,
} from '../auth/callers.ts';
import type { PublicRate } from '../auth/public-rate.ts';
import type { MemberRole } from '../auth/roles.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import type { Incoming } from '../http/route.ts';
import { parseId } from '../../shared/lib/ids.ts';
import { isQueueFull } from '../lifecycle/full-queue.ts';
import type { Route } from './route.ts';

export interface Admitted {
  params: Params;
  caller: Caller | undefined;
  project: VisibleProject | undefined;
  organisation?: (Organisation & { role: MemberRole }) | undefined;
  /** The body had not arrived yet. */
  isArriving?: boolean;
}

export interface AdmissionDeps extends Authentication {
  /** Undefined if public projects are closed. */
  publicRate: PublicRate | undefined;
}

/** Identifiers, and texts (http/route.ts). */
type Params = Record<string, bigint | string>;

export const anybody: Admitted = { params: {}, caller: undefined, project: undefined };

/** A route without credentials may still have parameters in its path. */
export async function admitAnybody({ params }: Pick<Incoming, 'params'>): Promise<Admitted> {
  return { ...anybody, params: readParams(params) };
}

export async function admit(
  route: Route,
  { db, publicRate, tokenUses }: AdmissionDeps,
  request: Incoming,
  address: string,
): Promise<Admitted> {
  if (publicRate && route.access === 'public' && !sendsCredentials(request))
    return admitAnonymous(route, { db, publicRate }, request, address);
  const caller = await authenticate(request, { db, tokenUses }, address);
  const admitted = await admitCaller(route, { db, publicRate }, caller, request.params);
  await demandRoomInQueue(route, db, admitted);
  return admitted;
}

export async function demandRoomInQueue(
  { startsWork }: Route,
  db: Pick<Database, 'read'>,
  { project }: Admitted,
): Promise<void> {
  if (startsWork && project && (await isQueueFull(db.read, project.id)))
    throw new ApiError('resource_temporary_unavailable');
}

/** A project that is not public looks like one that does not exist. */
async function admitAnonymous(
  route: Route,
  { db, publicRate }: Omit<AdmissionDeps, 'tokenUses'>,
  { params, raw }: Pick<Incoming, 'params' | 'raw'>,
  address: string,
): Promise<Admitted> {
  publicRate?.take(address, raw);
  return admitCaller(route, { db, publicRate }, anonymous, params).catch((error: unknown) => {
    throw error instanceof ApiError ? new ApiError('unauthorized') : error;
  });
}

export async function admitCaller(
  route: Route,
  { db, publicRate }: { db: Pick<Database, 'read'>; publicRate: PublicRate | undefined },
  caller: Caller,
  rawParams: Readonly<Record<string, string>>,
): Promise<Admitted> {
  requireScope(caller, route.scope);
  requireReach(caller, route);
  const params = readParams(rawParams);
  if (route.credentials === 'account') {
    const isForEverybody = await route.isForEverybody?.({ db: db.read, caller, params } as never);
    if (!isForEverybody) admitToAccount(caller, route.access);
    return { params, caller, project: undefined };
  }
  if (route.credentials === 'organisation') {
    const role = route.access as MemberRole;
    const organisation = await admitToOrganisation(db.read, caller, idIn(params, 'organisation_id', route), role);
    return { params, caller, project: undefined, organisation };
  }
  const wanted = { ...route, opensPublic: publicRate !== undefined };
  const project = await admitToProject(db.read, caller, idIn(params, 'project_id', route), wanted);
  return { params, caller, project };
}

/** Credentials of some projects are good for the routes of projects, and for those that leave the other projects out. */
function requireReach(caller: Caller, route: Route): void {
  const { projects } = caller;
  const { credentials, forSomeProjects = credentials === 'project' } = route;
  if (caller.via === 'build' && !isOpenToBuilds(caller, route)) throw new ApiError('unauthorized');
  if (projects !== 'all' && !forSomeProjects) throw new ApiError('unauthorized');
}

function isOpenToBuilds({ startsBuilds = false }: Caller, { credentials, access, method, path }: Route): boolean {
  if (credentials === 'project' && access === 'public' && method === 'GET') return true;
  return startsBuilds && method === 'POST' && path === '/projects/:project_id/build_requests';
}

function idIn(params: Params, name: string, route: Route): bigint {
  const id = params[name];
  if (typeof id !== 'bigint') throw new Error(`${route.path} has no ${name}`);
  return id;
}

function readParams(raw: Readonly<Record<string, string>>): Params {
  const params: Params = {};
  for (const name of Object.keys(raw)) {
    const id = name.endsWith('_name') ? raw[name] : parseId(raw[name] ?? '');
    if (id === undefined) throw new ApiError('not_found');
    params[name] = id;
  }
  return params;
}
