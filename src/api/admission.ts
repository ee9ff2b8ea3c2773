import {
  admitToAccount,
  admitToProject,
  seekProject,
  type SoughtProject,
  type VisibleProject,
} from '../auth/projects.ts';
import { authenticate, requireScope, sendsCredentials, type Caller } from '../auth/callers.ts';
import type { Database } from '../db/open.ts';
import { ApiError } from '../errors.ts';
import type { Incoming } from '../http/route.ts';
import { parseId } from '../lib/ids.ts';
import { isQueueFull } from '../lifecycle/full-queue.ts';
import type { Route } from './route.ts';

/** The caller, and the account or project that the caller was admitted to. */
export interface Admitted {
  params: Record<string, bigint>;
  caller: Caller | undefined;
  project: VisibleProject | undefined;
}

export const anybody: Admitted = { params: {}, caller: undefined, project: undefined };

/** A route without credentials may still have parameters in its path. */
export async function admitAnybody({ params }: Pick<Incoming, 'params'>): Promise<Admitted> {
  return { ...anybody, params: readParams(params) };
}

/** Authenticates the caller and checks its access. */
export async function judge(route: Route, db: Database, request: Incoming): Promise<Admitted> {
  const calling = authenticate(request, db);
  const sought = soughtMeanwhile(route, db, request);
  const filling = route.startsWork && sendsCredentials(request) ? isFull(db, request) : undefined;
  filling?.catch(() => {}); // a caller who is refused before does not wait for it
  const admitted = await admitCaller(route, db, await calling, request.params, sought);
  if (await filling) throw new ApiError('resource_temporary_unavailable');
  return admitted;
}

async function isFull(db: Database, { params }: Incoming): Promise<boolean> {
  const projectId = parseId(params.project_id ?? '');
  return projectId !== undefined && (await isQueueFull(db.read, projectId));
}

/**
 * The project, looked for while it is not known yet who asks: where the database is another process, each answer has to
 * be waited for. Who sends no credentials costs the database nothing.
 */
function soughtMeanwhile(route: Route, db: Database, request: Incoming): SoughtProject | undefined {
  const isWorthIt = !db.inTurns && route.concerns === 'project' && sendsCredentials(request);
  const projectId = isWorthIt ? parseId(request.params.project_id ?? '') : undefined;
  return projectId === undefined ? undefined : seekProject(db.read, projectId);
}

/** Checks the access of a caller that is authenticated already. */
export async function admitCaller(
  route: Route,
  db: Pick<Database, 'read'>,
  caller: Caller,
  rawParams: Readonly<Record<string, string>>,
  sought?: SoughtProject,
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
  const project = await admitToProject(db.read, caller, sought ?? seekProject(db.read, projectId), route);
  return { params, caller, project };
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
