import type { Caller } from '../auth/callers.ts';
import type { Answer, Incoming } from '../http/route.ts';
import { admitCaller } from './admission.ts';
import { perform, type EndpointServices } from './endpoints.ts';
import { routesByName, type Route } from './route.ts';
import type { RouteName } from './call.ts';

export type { RouteName };

/**
 * Calls of API routes from inside, for a caller that is authenticated already. A page has no logic of its own: it calls
 * the same route as a program, and so has the same admission, field checks, transaction and audit entry.
 */

export interface InnerCalls {
  routes: readonly Route[];
  /** Throws the same `ApiError` that a program would get. */
  call(name: RouteName, caller: Caller, request: Incoming, signal?: AbortSignal): Promise<Answer>;
  /** Only checks whether the caller has access. */
  admit(name: RouteName, caller: Caller, params: Incoming['params']): Promise<void>;
}

export function innerCalls(
  routes: readonly Route[],
  { isBehindProxy, baseUrl, isDraining, ...services }: EndpointServices,
): InnerCalls {
  const find = routesByName(routes);
  return {
    routes,
    async call(name, caller, request, signal) {
      const route = find(name);
      const admitted = await admitCaller(route, services.db, caller, request.params);
      return perform(route, services, { request, signal, isBehindProxy, baseUrl, isDraining, find }, admitted);
    },
    async admit(name, caller, params) {
      await admitCaller(find(name), services.db, caller, params);
    },
  };
}
