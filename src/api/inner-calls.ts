import type { Caller } from '../auth/callers.ts';
import type { Answer, Incoming } from '../http/route.ts';
import { admitCaller } from './admission.ts';
import { perform, type EndpointServices } from './endpoints.ts';
import type { Route } from './route.ts';

/**
 * Calls of the API's routes from inside, for somebody who is known already. A page does nothing by itself: it calls the
 * route that a program would call, and so has the same admission, the same checks of every field, the same transaction
 * and the same entry in the audit log.
 */

/** A route by its method and path, as it was declared: `POST /projects/:project_id/suites`. */
export type RouteName = `${Route['method']} /${string}`;

export interface InnerCalls {
  routes: readonly Route[];
  /** Throws the `ApiError` that a program would be answered with. */
  call(name: RouteName, caller: Caller, request: Incoming, signal?: AbortSignal): Promise<Answer>;
  /** Only finds out whether the caller may. */
  admit(name: RouteName, caller: Caller, params: Incoming['params']): Promise<void>;
}

export function innerCalls(
  routes: readonly Route[],
  { isBehindProxy, baseUrl, ...services }: Omit<EndpointServices, 'answerCache'>,
): InnerCalls {
  const byName = new Map(routes.map((route) => [`${route.method} ${route.path}`, route]));
  const find = (name: RouteName): Route => {
    const route = byName.get(name);
    if (!route) throw new Error(`there is no route ${name}`);
    return route;
  };
  return {
    routes,
    async call(name, caller, request, signal) {
      const route = find(name);
      const admitted = await admitCaller(route, services.db, caller, request.params);
      return perform(route, services, { request, signal, isBehindProxy, baseUrl }, admitted);
    },
    async admit(name, caller, params) {
      await admitCaller(find(name), services.db, caller, params);
    },
  };
}
