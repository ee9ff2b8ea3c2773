import type { IncomingMessage } from 'node:http';
import { anonymous, type Caller } from '../auth/callers.ts';
import { addressOf } from '../http/client-address.ts';
import type { Answer, Incoming, Role } from '../http/route.ts';
import { admitCaller } from './admission.ts';
import { perform, type EndpointDeps } from './endpoints.ts';
import { routesByName, type Route } from './route.ts';
import type { RouteName } from './call.ts';

export type { RouteName };

/** Pages have no logic of their own: they call the same routes as programs, with the same checks and audit entries. */

export interface InnerCalls {
  routes: readonly Route[];
  call(name: RouteName, caller: Caller, request: Incoming, signal?: AbortSignal): Promise<Answer>;
  /** The caller's role in the project, if the route is a project's. */
  admit(name: RouteName, caller: Caller, params: Incoming['params']): Promise<Role | undefined>;
  /** A visitor without a session, within the limit of their address. Undefined if public projects are closed. */
  anybody(request: IncomingMessage): Caller | undefined;
}

export function innerCalls(
  routes: readonly Route[],
  { isBehindProxy, baseUrl, isDraining, publicRate, ...deps }: EndpointDeps,
): InnerCalls {
  const find = routesByName(routes);
  return {
    routes,
    async call(name, caller, request, signal) {
      const route = find(name);
      const admitted = await admitCaller(route, { db: deps.db, publicRate }, caller, request.params);
      return perform(route, deps, { request, signal, isBehindProxy, baseUrl, isDraining, find }, admitted);
    },
    async admit(name, caller, params) {
      const { project } = await admitCaller(find(name), { db: deps.db, publicRate }, caller, params);
      return project?.role;
    },
    anybody(request) {
      publicRate?.take(addressOf(request, isBehindProxy), request);
      return publicRate && anonymous;
    },
  };
}
