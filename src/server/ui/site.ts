import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { InnerCalls } from '../api/inner-calls.ts';
import { callerInBrowser } from '../auth/callers.ts';
import { organisationsOf } from '../auth/organisations.ts';
import { troubleOfRunners } from '../auth/runner-heartbeats.ts';
import type { Person } from '../auth/sessions.ts';
import { parseForm } from '../http/bodies.ts';
import { addressOf } from '../http/client-address.ts';
import { emptyGroup, type RawGroup } from '../../shared/records/raw.ts';
import { drainBody } from '../http/unread-bodies.ts';
import { withRawBodies } from '../http/uploads.ts';
import { ApiError } from '../../shared/errors.ts';
import { notFound, protect, sendError, sendPage, strayForm, type ErrorServices } from './answers.ts';
import { addData } from './data.ts';
import type { Page } from './layout.ts';
import { visitApi, type PageRequest, type VisitApi } from './visit-api.ts';
import { createCookies, fitsFormKey, isFromOurPages, type Cookies, type OwnServices, type Visitor } from './visitor.ts';

export { notFound };

export interface SiteServices extends ErrorServices {
  site: OwnServices;
  calls: InnerCalls;
  baseUrl: string | undefined;
  /** True if the server speaks TLS. If false, a proxy in front of it may do so. */
  hasTls: boolean;
  imageBuilds: boolean;
  publicProjects: boolean;
}

export interface Visit {
  visitor: Visitor;
  formKey: string;
  url: string;
  path: string;
  query: RawGroup;
  form: RawGroup;
  /** Empty if there is no value, or more than one. */
  param: (name: string) => string;
  queryText: (name: string) => string;
  formText: (name: string) => string;
  address: string;
  /** The configured public address, or else the address in the browser's request. */
  origin: string;
  imageBuilds: boolean;
  signIn: (session: string) => void;
  signOut: () => void;
  /** Remembers a sign-in in progress in this browser; undefined when it is over. */
  keepFlow: (flow: string | undefined) => void;
  apiFor: (person: Person) => VisitApi;
  /** For a visitor without a session. Undefined if public projects are closed. */
  apiForAnybody: () => VisitApi | undefined;
  hasPublicProjects: boolean;
}

/** For pages that sign in or out, or request a decision. Other pages call routes of the API. */
export type SiteVisit = Visit & { site: OwnServices };

export type PersonVisit = Visit & { person: Person; api: VisitApi };

/** Without a person, the visitor is not signed in and reads only public projects. */
export type OpenVisit = Visit & { person: Person | undefined; api: VisitApi };

export type Response = Page | { goTo: string; status: 302 | 303 };

export interface PageRoute {
  method: 'GET' | 'POST';
  path: string;
  /** True for a form with a file, which is not read here. Its key is in the address. */
  takesFile?: boolean;
  largestForm?: number;
  visit(visit: SiteVisit): Promise<Response>;
}

/** A route only for signed-in users. Other visitors must sign in first. */
export function forPeople(route: {
  method: PageRoute['method'];
  path: string;
  takesFile?: boolean;
  largestForm?: number;
  visit: (visit: PersonVisit & SiteVisit) => Promise<Response>;
}): PageRoute {
  return {
    ...route,
    async visit(visit) {
      const { person } = visit.visitor;
      return person
        ? route.visit(Object.assign(visit, { person, api: visit.apiFor(person) }))
        : signInFirst(route.method === 'GET' ? visit.url : '/ui/');
    },
  };
}

/** A route also for visitors who are not signed in. They must sign in for anything that the public may not read. */
export function forAnybody(route: { path: string; visit: (visit: OpenVisit) => Promise<Response> }): PageRoute {
  return {
    ...route,
    method: 'GET',
    async visit(visit) {
      const { person } = visit.visitor;
      if (person) return route.visit(Object.assign(visit, { person, api: visit.apiFor(person) }));
      const api = visit.apiForAnybody();
      if (!api) return signInFirst(visit.url);
      try {
        return await route.visit(Object.assign(visit, { person, api }));
      } catch (error) {
        // A private project looks like one that does not exist.
        if (error instanceof ApiError && [401, 404].includes(error.status)) return signInFirst(visit.url);
        throw error;
      }
    },
  };
}

export function signInFirst(returnTo: string): Response {
  return { goTo: `/ui/sign-in?${new URLSearchParams({ return: returnTo }).toString()}`, status: 303 };
}

/** A session alone does not make credentials: the user may have left the browser open. */
export function proveFirst(returnTo: string): Response {
  return { goTo: `/ui/confirm?${new URLSearchParams({ return: returnTo }).toString()}`, status: 303 };
}

const usualForm = 64 * 1024;

/** Finds the user, checks the form key, and limits what the browser may do with the response. */
export function addSite(server: FastifyInstance, routes: readonly PageRoute[], services: SiteServices): void {
  const isSecure = services.hasTls || (services.baseUrl?.startsWith('https:') ?? false);
  const cookies = createCookies(services.site, { isSecure });
  const add = (site: FastifyInstance, some: readonly PageRoute[]): void => {
    site.setErrorHandler(async (error, request, reply) => {
      await drainBody(request, reply);
      return sendError(error, request, reply, services);
    });
    for (const route of some) {
      const handler = (request: FastifyRequest, reply: FastifyReply) =>
        attend(route, request, reply, services, cookies);
      const { method, path: url, largestForm: bodyLimit = usualForm } = route;
      site.route({ method, url, bodyLimit, config: { provenBy: 'session' }, handler });
    }
  };
  void server.register(async (site) => {
    site.removeAllContentTypeParsers();
    site.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string' },
      async (_: FastifyRequest, body: string) => parseForm(body),
    );
    const plain = routes.filter(({ takesFile }) => !takesFile);
    add(site, plain);
  });
  withRawBodies(server, (site) => {
    const taking = routes.filter(({ takesFile }) => takesFile);
    add(site, taking);
  });
  addData(server, { ...services, cookies });
}

async function attend(
  route: PageRoute,
  request: FastifyRequest,
  reply: FastifyReply,
  services: SiteServices,
  cookies: Cookies,
): Promise<FastifyReply> {
  const visitor = await cookies.identify(request, reply);
  const form = (request.body as RawGroup | undefined) ?? emptyGroup();
  const query = request.query as RawGroup;
  const [path = ''] = request.url.split('?', 1);
  const { person, formKey } = visitor;
  const viewer = {
    email: person?.email,
    isOperator: person?.operator === 1,
    isCollaborator: person?.kind === 'collaborator',
    hasPublicProjects: services.publicProjects,
    formKey,
    path,
  };
  const sentKey = textIn(route.takesFile ? query : form, 'form_key');
  const isOwnForm = () => isFromOurPages(request, services.baseUrl) && fitsFormKey(sentKey, visitor);
  if (route.method === 'POST' && !isOwnForm()) {
    await drainBody(request, reply);
    return sendPage(strayForm, viewer, request, reply);
  }
  const params = request.params as Record<string, string>;
  const { baseUrl, hasTls, imageBuilds, publicProjects: hasPublicProjects, calls, site } = services;
  const incoming = request as unknown as PageRequest;
  const response = await route.visit({
    site,
    visitor,
    formKey,
    url: request.url,
    path,
    query,
    form,
    param: (name) => params[name] ?? '',
    queryText: (name) => textIn(query, name),
    formText: (name) => textIn(form, name),
    address: addressOf(request.raw, !hasTls),
    origin: baseUrl?.replace(/\/+$/, '') ?? `${request.protocol}://${request.host}`,
    imageBuilds,
    signIn: (session) => cookies.signIn(reply, session),
    signOut: () => cookies.signOut(reply),
    keepFlow: (flow) => cookies.keepFlow(reply, flow),
    apiFor: (visiting) => visitApi(calls, callerInBrowser(visiting, { isProven: visitor.isProven }), incoming),
    apiForAnybody() {
      const caller = calls.anybody(request.raw);
      return caller && visitApi(calls, caller, incoming);
    },
    hasPublicProjects,
  });
  if ('goTo' in response) return protect(reply).redirect(response.goTo, response.status);
  const trouble = viewer.isOperator ? await troubleOfRunners(site.db) : undefined;
  const organisations = person && !response.isNarrow ? await organisationsOf(site.db.read, person.id) : undefined;
  return sendPage(response, { ...viewer, trouble, organisations }, request, reply);
}

export function textIn(group: RawGroup, name: string): string {
  const value = group[name];
  return typeof value === 'string' ? value : '';
}
