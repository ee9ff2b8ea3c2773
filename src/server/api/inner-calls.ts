import type { IncomingMessage } from 'node:http';
import { anonymous, type Caller } from '../auth/callers.ts';
import { addressOf } from '../http/client-address.ts';
import type { Answer, Incoming } from '../http/route.ts';
import { admitCaller, demandRoomInQueue, type Admitted } from './admission.ts';
import { demandAsMuch, perform, type EndpointDeps } from './endpoints.ts';
import { routesByName, type Route } from './route.ts';
import type { RouteName } from './call.ts';

export type { RouteName };

/** Pages and the tools for agents have no logic of their own: they call the same routes as programs, with the same checks and audit entries. */

export interface InnerCalls {
  routes: readonly Route[];
  call(name: RouteName, caller: Caller, request: Incoming, signal?: AbortSignal): Promise<Answer>;
  /** With `earlier`, throws if the caller may do less than then. */
  admit(name: RouteName, caller: Caller, params: Incoming['params'], earlier?: Admitted): Promise<Admitted>;
  /** A visitor without a session, within the limit of their address. Undefined if public projects are closed. */
  anybody(request: IncomingMessage): Caller | undefined;
}

export function innerCalls(
  routes: readonly Route[],
  { isBehindProxy, baseUrl, isDraining, publicRate, ...deps }: Omit<EndpointDeps, 'tokenUses'>,
): InnerCalls {
  const find = routesByName(routes);
  return {
    routes,
    async call(name, caller, request, signal) {
      const route = find(name);
      const admitted = await admitCaller(route, { db: deps.db, publicRate }, caller, request.params);
      await demandRoomInQueue(route, deps.db, admitted);
      return perform(route, deps, { request, signal, isBehindProxy, baseUrl, isDraining, find }, admitted);
    },
    async admit(name, caller, params, earlier) {
      const admitted = await admitCaller(find(name), { db: deps.db, publicRate }, caller, params);
      if (earlier) await demandAsMuch(find(name), deps, admitted, earlier);
      return admitted;
    },
    anybody(request) {
      publicRate?.take(addressOf(request, isBehindProxy), request);
      return publicRate && anonymous;
    },
  };
}
