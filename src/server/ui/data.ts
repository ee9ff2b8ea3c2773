import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { InnerCalls } from '../api/inner-calls.ts';
import type { Route } from '../api/route.ts';
import { callerInBrowser, type Caller } from '../auth/callers.ts';
import { ApiError } from '../../shared/errors.ts';
import { answerError, sendJson } from '../http/json-answers.ts';
import type { Incoming } from '../http/route.ts';
import { drainBody } from '../http/unread-bodies.ts';
import { withRawBodies } from '../http/uploads.ts';
import { exactJson } from '../../shared/lib/exact-json.ts';
import { protect } from './answers.ts';
import type { RouteName } from './visit-api.ts';
import { fitsFormKey, isFromOurPages, type Cookies } from './visitor.ts';

/**
 * Routes of the API for scripts and links of our pages, under `/ui/data`, with the browser's session. The API accepts
 * no cookie, because it serves other sites too. These routes refuse other sites, JSON-P and CORS. Changes require a
 * form's key. Visitors without a session get what the public may read.
 */

const dependency = '/dependencies/:dependency_id';
const project = '/projects/:project_id';
const build = `${project}/builds/:build_id` as const;
const shell = `${build}/shell` as const;
const logged = [
  dependency,
  build,
  `${build}/services/:service_name`,
  `${project}/build_requests/:build_request_id`,
  `${project}/deploys/:deploy_id`,
] as const;

const served = new Set<string>([
  'GET /changes',
  `GET ${project}/changes`,
  ...logged.flatMap(
    (of) => [`GET ${of}/log.txt`, `GET ${of}/log/view`, `GET ${of}/log/matches`, `GET ${of}/log/growth`] as const,
  ),
  `GET ${build}/summary`,
  `GET ${build}/artifacts/:artifact_id`,
  `GET ${build}/artifacts/:artifact_id/content`,
  `GET ${build}/artifacts.zip`,
  // Scripts call these, because a form cannot resume an upload or open a shell.
  `POST ${dependency}/uploads`,
  `GET ${dependency}/uploads/:upload_id`,
  `PATCH ${dependency}/uploads/:upload_id`,
  `POST ${shell}`,
  `GET ${shell}/:shell_id/connection`,
  `DELETE ${shell}/:shell_id`,
] satisfies RouteName[]);

interface DataServices {
  calls: InnerCalls;
  cookies: Cookies;
  baseUrl: string | undefined;
}

export function addData(server: FastifyInstance, services: DataServices): void {
  const routes = services.calls.routes.filter(({ method, path }) => served.has(`${method} ${path}`));
  for (const route of routes) if (!route.uploads) addRoute(server, route, services);
  withRawBodies(server, (scope) => {
    for (const route of routes) if (route.uploads) addRoute(scope, route, services);
  });
}

function addRoute(server: FastifyInstance, route: Route, services: DataServices): void {
  const name = `${route.method} ${route.path}` as RouteName;
  server.route({
    method: route.method,
    url: `/ui/data${route.path}`,
    exposeHeadRoute: false, // no script calls it, and every route slows the start
    config: { showsSecrets: route.showsSecrets ?? false, provenBy: 'session' },
    errorHandler,
    async handler(request, reply) {
      const ask = (caller: Caller, signal?: AbortSignal) =>
        services.calls.call(name, caller, request as unknown as Incoming, signal);
      let first: Awaited<ReturnType<InnerCalls['admit']>> | undefined;
      const admit = async (): Promise<Caller> => {
        const caller = await callerFor(request, services, route);
        const params = request.params as Record<string, string>;
        const admitted = await services.calls.admit(name, caller, params, first);
        first ??= admitted;
        return caller;
      };
      protect(reply);
      if (route.method !== 'GET' || route.connects) await demandFormKey(request, reply, services);
      if (route.streams) {
        const caller = await admit();
        const answer = await ask(caller, server.streams.whileOpen(reply, admit));
        if (!('stream' in answer)) throw new Error(`${route.path} streams its answer`);
        return server.streams.send(answer.stream, request, reply);
      }
      const answer = route.uploads
        ? await ask(await admit(), server.streams.whileOpen(reply, admit))
        : await ask(await callerFor(request, services, route));
      if ('json' in answer || 'stream' in answer || 'text' in answer) throw new Error(`${route.path} answers a record`);
      if ('record' in answer && answer.record === undefined) return reply.status(204).send();
      const response = 'page' in answer ? answer.page.items : answer.record;
      // A serializer per route would cost too much memory for the time it saves.
      return sendJson(exactJson({ response }), request, reply);
    },
  });
}

function errorHandler(error: unknown, request: FastifyRequest, reply: FastifyReply): unknown {
  if (!(error instanceof ApiError)) throw error; // handled by the server
  return drainBody(request, reply).then(() => answerError(error, request, protect(reply)));
}

async function demandFormKey(request: FastifyRequest, reply: FastifyReply, services: DataServices): Promise<void> {
  const visitor = await services.cookies.identify(request, reply);
  // For a WebSocket, a script can set only the protocols.
  const { 'x-form-key': key = protocolsOf(request).at(1) } = request.headers;
  if (typeof key !== 'string' || !fitsFormKey(key, visitor)) throw new ApiError('unauthorized');
}

function protocolsOf({ headers }: FastifyRequest): string[] {
  return (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
}

/** A user may open an address directly, except a WebSocket. A page that opens a WebSocket always sends an origin. */
async function callerFor(
  request: FastifyRequest,
  { calls, cookies, baseUrl }: DataServices,
  { method, path, access, connects = false }: Route,
): Promise<Caller> {
  const { 'sec-fetch-site': site, origin = 'null' } = request.headers;
  if (connects && origin === 'null') throw new ApiError('unauthorized');
  const isByHand = site === 'none' && !connects;
  if (!isByHand && !isFromOurPages(request, baseUrl)) throw new ApiError('unauthorized');
  const person = await cookies.person(request);
  if (person) return callerInBrowser(person);
  const anybody = access === 'public' ? calls.anybody(request.raw) : undefined;
  if (!anybody) throw new ApiError('unauthorized');
  const name = `${method} ${path}` as RouteName;
  await calls.admit(name, anybody, request.params as Record<string, string>).catch((error: unknown) => {
    throw error instanceof ApiError ? new ApiError('unauthorized') : error;
  });
  return anybody;
}
