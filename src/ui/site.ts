import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../errors.ts';
import { isForeignKeyViolation, type Database } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { parseForm } from '../http/bodies.ts';
import { addressOf } from '../http/client-address.ts';
import { emptyGroup, type RawGroup } from '../http/raw.ts';
import { hearOut } from '../http/unread-bodies.ts';
import type { IdSource } from '../lib/ids.ts';
import { problem, render, type Page, type Viewer } from './layout.ts';
import { createCookies, fitsFormKey, isFromOurPages, type Cookies, type Visitor } from './visitor.ts';

export interface SiteServices {
  db: Database;
  ids: IdSource;
  /** Where people find this server, if the operator said so. */
  baseUrl: string | undefined;
  /** Whether this server speaks TLS itself; if not, a proxy stands before it. */
  hasTls: boolean;
  /** What an error that is ours is written to. */
  onTrouble: (error: unknown, requestId: string) => void;
}

/** One request by a person in a browser. */
export interface Visit {
  db: Database;
  ids: IdSource;
  visitor: Visitor;
  formKey: string;
  /** Path and query. */
  url: string;
  query: RawGroup;
  form: RawGroup;
  /** What stands in the path, the query or the form; '' when nothing does, or several things do. */
  param: (name: string) => string;
  queryText: (name: string) => string;
  formText: (name: string) => string;
  /** Where the visitor comes from. */
  address: string;
  signIn: (session: string) => void;
  signOut: () => void;
}

export type PersonVisit = Visit & { person: Readonly<UserRow> };

export type Response = Page | { goTo: string; status: 302 | 303 };

/** Somewhere a person can go. */
export interface Place {
  method: 'GET' | 'POST';
  path: string;
  visit(visit: Visit): Promise<Response>;
}

/** Somewhere for those who are signed in; the others sign in first. */
export function forPeople(place: {
  method: Place['method'];
  path: string;
  visit: (visit: PersonVisit) => Promise<Response>;
}): Place {
  return {
    ...place,
    async visit(visit) {
      const { person } = visit.visitor;
      return person
        ? place.visit(Object.assign(visit, { person }))
        : signInFirst(place.method === 'GET' ? visit.url : '/ui/');
    },
  };
}

export function signInFirst(returnTo: string): Response {
  return { goTo: `/ui/sign-in?${new URLSearchParams({ return: returnTo }).toString()}`, status: 303 };
}

const largestForm = 64 * 1024;

/** Serves pages to people: who they are, whether a form is theirs, and what their browser may do with the answer. */
export function addSite(server: FastifyInstance, places: readonly Place[], services: SiteServices): void {
  const isSecure = services.hasTls || (services.baseUrl?.startsWith('https:') ?? false);
  const cookies = createCookies({ isSecure });
  void server.register(async (site) => {
    site.removeAllContentTypeParsers();
    site.addContentTypeParser(
      'application/x-www-form-urlencoded',
      { parseAs: 'string', bodyLimit: largestForm },
      async (_: FastifyRequest, body: string) => parseForm(body),
    );
    site.setErrorHandler(async (error, request, reply) => {
      await hearOut(request, reply);
      return sendError(error, request, reply, services);
    });
    site.addHook('onResponse', async (_, reply) => server.answered(reply.statusCode, reply.elapsedTime));
    for (const place of places) {
      site.route({
        config: { provenBy: 'session' },
        method: place.method,
        url: place.path,
        handler: (request, reply) => attend(place, request, reply, services, cookies),
      });
    }
  });
}

async function attend(
  place: Place,
  request: FastifyRequest,
  reply: FastifyReply,
  services: SiteServices,
  cookies: Cookies,
): Promise<FastifyReply> {
  const visitor = await cookies.identify(request, reply, services.db.read);
  const form = (request.body as RawGroup | undefined) ?? emptyGroup();
  const [path = ''] = request.url.split('?', 1);
  const viewer = { email: visitor.person?.email, formKey: visitor.formKey, path };
  const isOurs = () => isFromOurPages(request, services.baseUrl) && fitsFormKey(textIn(form, 'form_key'), visitor);
  if (place.method === 'POST' && !isOurs()) return send(strayForm, viewer, reply);
  const query = request.query as RawGroup;
  const params = request.params as Record<string, string>;
  const response = await place.visit({
    db: services.db,
    ids: services.ids,
    visitor,
    formKey: visitor.formKey,
    url: request.url,
    query,
    form,
    param: (name) => params[name] ?? '',
    queryText: (name) => textIn(query, name),
    formText: (name) => textIn(form, name),
    address: addressOf(request.raw, !services.hasTls),
    signIn: (session) => cookies.signIn(reply, session),
    signOut: () => cookies.signOut(reply),
  });
  if ('goTo' in response) return protect(reply).redirect(response.goTo, response.status);
  return send(response, viewer, reply);
}

function textIn(group: RawGroup, name: string): string {
  const value = group[name];
  return typeof value === 'string' ? value : '';
}

const strayForm = problem(
  403,
  'This form is out of date',
  'You may have signed in or out in another window since it was opened, or your browser keeps no cookies for this site. Go back, load the page again, and try once more.',
);

/** Nothing but our own stylesheet and icon is loaded, nothing is run, and nobody puts a page into a frame. */
function policy(formTarget: string | undefined): string {
  const target = formTarget === undefined ? '' : ` ${formTarget}`;
  return [
    "default-src 'none'",
    "style-src 'self'",
    "img-src 'self'",
    `form-action 'self'${target}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** Addresses of our pages can hold what is nobody else's business: no other site is told them. */
function protect(reply: FastifyReply, formTarget?: string): FastifyReply {
  return reply
    .header('content-security-policy', policy(formTarget))
    .header('referrer-policy', 'no-referrer')
    .header('x-frame-options', 'DENY')
    .header('x-content-type-options', 'nosniff');
}

function send(page: Page, viewer: Viewer, reply: FastifyReply): FastifyReply {
  return protect(reply, page.formTarget)
    .status(page.status ?? 200)
    .headers(page.headers ?? {})
    .type('text/html; charset=utf-8')
    .send(render(page, viewer));
}

function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { onTrouble }: SiteServices,
): FastifyReply {
  const viewer = { email: undefined, formKey: '', path: '' };
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  // What somebody was looking at was deleted in this very moment.
  if (isForeignKeyViolation(error)) return send(notFound, viewer, reply);
  if (error instanceof ApiError || (status >= 400 && status < 500)) return send(unreadableRequest, viewer, reply);
  if (isUnavailable(error)) return send(comeBack, viewer, reply);
  onTrouble(error, request.id);
  const text = `It is written down on the server under ${request.id}. Try again in a while.`;
  return send(problem(500, 'Something went wrong here', text), viewer, reply);
}

export const notFound = problem(404, 'There is nothing here', 'The page may have moved, or what it showed is gone.');
const comeBack = problem(503, 'One moment', 'The service is waiting for its database. Try again in a while.');
const unreadableRequest = problem(400, 'This cannot be read', 'What your browser sent makes no sense to this server.');
