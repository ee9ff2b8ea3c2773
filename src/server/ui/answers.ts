import { randomBytes } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors.ts';
import { sendPacked, worthPacking } from '../http/compression.ts';
import { problem, render, type Page, type Viewer } from './layout.ts';

/**
 * Pages load only our own stylesheet, icons and scripts, and cannot be framed. Scripts need this response's nonce. Our
 * address alone proves nothing, because JSON-P makes every API response a script.
 */
function policy({ formTarget, nonce, hasTerminal, frames }: Allowed): string {
  const target = formTarget === undefined ? '' : ` ${formTarget}`;
  const scripts = [`script-src 'nonce-${nonce}'`, "worker-src 'self'", "connect-src 'self'"];
  return [
    "default-src 'none'",
    `style-src 'self'${hasTerminal ? ` 'nonce-${nonce}'` : ''}`,
    "img-src 'self'",
    ...(nonce === undefined ? [] : scripts),
    ...(frames === undefined ? [] : [`frame-src ${frames}`, "object-src 'self'"]),
    `form-action 'self'${target}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
}

interface Allowed {
  formTarget?: string | undefined;
  /** Without a nonce, the page runs no scripts. */
  nonce?: string | undefined;
  hasTerminal?: boolean | undefined;
  frames?: string | undefined;
}

/** Other sites must not get our addresses as referrers, because these can contain private data. */
export function protect(reply: FastifyReply, allowed: Allowed = {}): FastifyReply {
  return reply
    .header('content-security-policy', policy(allowed))
    .header('referrer-policy', 'no-referrer')
    .header('x-frame-options', 'DENY')
    .header('cross-origin-resource-policy', 'same-origin')
    .header('cross-origin-opener-policy', 'same-origin');
}

export function sendPage(page: Page, viewer: Viewer, { headers }: FastifyRequest, reply: FastifyReply): FastifyReply {
  const hasScripts = page.hasPasskeys || !page.isNarrow;
  const nonce = !hasScripts ? undefined : randomBytes(16).toString('base64');
  const text = render(page, viewer, nonce);
  const { formTarget, hasTerminal, frames } = page;
  protect(reply, { formTarget, nonce, hasTerminal, frames })
    .status(page.status ?? 200)
    .headers(page.headers ?? {})
    .type('text/html; charset=utf-8');
  // A compressed length reveals something about the page (BREACH), so pages with a secret are not compressed.
  if (!page.isWorthPacking || text.length < worthPacking) return reply.send(text);
  return sendPacked(text, headers['accept-encoding'], reply);
}

export interface ErrorServices {
  translate: (error: unknown) => ApiError | undefined;
  onTrouble: (error: unknown, requestId: string) => void;
}

export function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { translate, onTrouble }: ErrorServices,
): FastifyReply {
  const send = (page: Page) => sendPage(page, nobody, request, reply);
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  const known = error instanceof ApiError ? error : translate(error);
  if (known) return send(pageForError(known));
  if (status >= 400 && status < 500) return send(unreadableRequest);
  onTrouble(error, request.id);
  const text = `It is written down on the server under ${request.id}. Try again in a while.`;
  return send(problem(500, 'Something went wrong here', text));
}

const nobody: Viewer = {
  email: undefined,
  hasPublicProjects: false,
  formKey: '',
  path: '',
  isOperator: false,
  isCollaborator: false,
};

export function pageForError(error: ApiError): Page {
  const codes = new Set(Object.values(error.fields).flat());
  if (codes.has('not_found') || codes.has('api_does_not_exists')) return notFound;
  if (codes.has('payment_required')) return unpaidPage;
  if (codes.has('unauthorized')) return ownersOnly;
  if (codes.has('limit_reached')) return { ...tooMany, headers: { ...error.headers } };
  if (codes.has('resource_temporary_unavailable')) return comeBack;
  return unreadableRequest;
}

export const notFound = problem(404, 'There is nothing here', 'The page may have moved, or what it showed is gone.');
const ownersOnly = problem(
  403,
  'This is not yours to see',
  'Only the owner of the project, or an operator, can do this.',
);
const unpaidPage = problem(402, 'This account is unpaid', 'What it owns cannot be used until that is settled.');
const comeBack = problem(503, 'One moment', 'The service is waiting for its database. Try again in a while.');
const tooMany = problem(
  429,
  'Too many requests',
  'Your address sent too many requests without a sign-in. Wait a minute, or sign in.',
);
const unreadableRequest = problem(400, 'This cannot be read', 'What your browser sent makes no sense to this server.');
export const strayForm = problem(
  403,
  'This form is out of date',
  'You may have signed in or out in another window since it was opened, or your browser keeps no cookies for this site. Go back, load the page again, and try once more.',
);
