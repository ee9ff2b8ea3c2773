import { admitToAccount, admitToProject, type VisibleProject } from '../auth/projects.ts';
import { authenticate, requireScope, type Caller } from '../auth/callers.ts';
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
}

/** Identifiers, and texts (http/route.ts). */
type Params = Record<string, bigint | string>;

export const anybody: Admitted = { params: {}, caller: undefined, project: undefined };

/** A route without credentials may still have parameters in its path. */
export async function admitAnybody({ params }: Pick<Incoming, 'params'>): Promise<Admitted> {
  return { ...anybody, params: readParams(params) };
}

export async function admit(route: Route, db: Database, request: Incoming): Promise<Admitted> {
  const admitted = await admitCaller(route, db, await authenticate(request, db), request.params);
  const { project } = admitted;
  if (route.startsWork && project && (await isQueueFull(db.read, project.id)))
    throw new ApiError('resource_temporary_unavailable');
  return admitted;
}

export async function admitCaller(
  route: Route,
  db: Pick<Database, 'read'>,
  caller: Caller,
  rawParams: Readonly<Record<string, string>>,
): Promise<Admitted> {
  requireScope(caller, route.scope);
  const params = readParams(rawParams);
  if (route.credentials === 'account') {
    const isForEverybody = await route.isForEverybody?.({ db: db.read, caller, params } as never);
    if (!isForEverybody) admitToAccount(caller, route.access);
    return { params, caller, project: undefined };
  }
  const { project_id: projectId } = params;
  if (typeof projectId !== 'bigint') throw new Error(`${route.path} names no project`);
  const project = await admitToProject(db.read, caller, projectId, route);
  return { params, caller, project };
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
