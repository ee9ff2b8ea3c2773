import type { Database, Queries, Transaction } from '../db/open.ts';
import { inBrowser, recordAudit } from '../auth/audit.ts';
import { insertToken, type Grant } from '../auth/tokens.ts';
import type { Scope } from '../http/route.ts';
import { repeated, type RawGroup } from '../../shared/records/raw.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { isDocumentAddress, type ClientDocuments } from './client-documents.ts';
import { findClient, ownsAddress, storeDocument, type Client } from './clients.ts';
import { insertCode, tokenIssued } from './codes.ts';
import { OauthError, parametersOf, readResource, readScopes, refuseRepeated, type Parameters } from './parameters.ts';
import { isChallenge } from './pkce.ts';
import { outOfBand, withAnswer } from './redirects.ts';

export interface Request {
  client: Client;
  redirectUri: string;
  redirectUriSent: boolean;
  responseType: 'code' | 'token';
  scopes: readonly Scope[];
  state: string | undefined;
  challenge: string | undefined;
  /** The token will open only `/mcp`. */
  forMcp: boolean;
  /** This server, for the response (RFC 9207). */
  issuer: string;
}

/** `redirectUri` belongs to the known application. The browser is redirected there only if the user agrees. */
export interface Mistake {
  client: Client;
  redirectUri: string;
  why: string;
  goTo: string;
}

/**
 * Ask the user, show an error that the user may take to the application, or only show an error. `signIn`: only a user
 * makes this server read the document of an application.
 */
export type AuthorizationResult = { ask: Request } | { mistake: Mistake } | { tell: string } | { signIn: true };

export interface AuthorizationParts {
  db: Queries;
  documents: ClientDocuments;
  /** The public address of this server. */
  issuer: string;
  person: { id: bigint } | undefined;
}

export const parameterNames = [
  'client_id',
  'redirect_uri',
  'response_type',
  'scope',
  'state',
  'code_challenge',
  'code_challenge_method',
  'resource',
];

/**
 * RFC 6749 section 4.1.2.1: the browser is redirected only to a known application's own address. RFC 9700 section
 * 4.11.2: errors only if the user agrees. Otherwise a link to this server could lead to any registered address.
 */
export async function checkRequest(
  { db, documents, issuer, person }: AuthorizationParts,
  sent: RawGroup,
): Promise<AuthorizationResult> {
  const parameters = parametersOf(sent);
  const clientId = parameters('client_id');
  const isDocument = clientId !== undefined && isDocumentAddress(clientId);
  if (isDocument && !person) return { signIn: true };
  const client =
    isDocument && person ? await documents.fetch(clientId, person.id) : clientId && (await findClient(db, clientId));
  if (!client)
    return {
      tell: isDocument
        ? 'The application that sent you here is not registered, and the document about it cannot be used.'
        : 'The application that sent you here is not registered.',
    };
  const redirect = redirectOf(sent, parameters, client);
  if (!redirect)
    return { tell: 'The application sent you here with an address for the answer that it has not registered.' };
  try {
    return { ask: { client, issuer, ...redirect, ...readRequest(sent, parameters, client, issuer) } };
  } catch (error) {
    if (!(error instanceof OauthError)) throw error;
    const [state, responseType] = [parameters('state'), parameters('response_type')];
    const goTo = locationOf(
      { ...redirect, state, responseType, issuer },
      { error: error.code, error_description: error.message },
    );
    if (goTo === undefined) return { tell: `The application made a mistake: ${error.message}.` };
    return { mistake: { client, redirectUri: redirect.redirectUri, why: error.message, goTo } };
  }
}

/** RFC 6749 section 3.1.2.3: an application with one address need not send it. */
function redirectOf(
  sent: RawGroup,
  parameters: Parameters,
  client: Client,
): Pick<Request, 'redirectUri' | 'redirectUriSent'> | undefined {
  const named = parameters('redirect_uri');
  if (named === undefined) {
    const [only, ...more] = client.redirectUris;
    const isClear = sent.redirect_uri !== repeated && only !== undefined && more.length === 0;
    return isClear ? { redirectUri: only, redirectUriSent: false } : undefined;
  }
  return ownsAddress(client, named) ? { redirectUri: named, redirectUriSent: true } : undefined;
}

function readRequest(
  sent: RawGroup,
  parameters: Parameters,
  client: Client,
  issuer: string,
): Pick<Request, 'responseType' | 'scopes' | 'state' | 'challenge' | 'forMcp'> {
  refuseRepeated(sent, parameterNames);
  const responseType = parameters('response_type') ?? 'code';
  if (responseType !== 'code' && responseType !== 'token') {
    throw new OauthError('unsupported_response_type', 'response_type is code or token');
  }
  // Without a secret and a verifier, nothing would bind the response to the requesting application.
  if (responseType === 'token' && client.isPublic) {
    throw new OauthError('unauthorized_client', 'a public application uses the code flow with PKCE');
  }
  if (responseType === 'token' && (parameters('redirect_uri') ?? client.redirectUris[0]) === outOfBand) {
    throw new OauthError('invalid_request', 'the implicit flow needs an address to send the token to');
  }
  const challenge = responseType === 'code' ? readChallenge(parameters, client) : undefined;
  const forMcp = readResource(parameters('resource'), issuer) === 'mcp';
  return { responseType, scopes: readScopes(parameters('scope')), state: parameters('state'), challenge, forMcp };
}

/** RFC 7636 section 4.4.1. `plain`, the default method, does not protect against readers of the request. */
function readChallenge(parameters: Parameters, client: Client): string | undefined {
  const [challenge, method] = [parameters('code_challenge'), parameters('code_challenge_method')];
  if (challenge === undefined) {
    if (client.isPublic) throw new OauthError('invalid_request', 'a public application must send a code_challenge');
    if (method !== undefined) throw new OauthError('invalid_request', 'code_challenge is missing');
    return undefined;
  }
  if (method !== 'S256') throw new OauthError('invalid_request', 'the only code_challenge_method is S256');
  if (!isChallenge(challenge)) throw new OauthError('invalid_request', 'code_challenge is not a SHA-256 in base64url');
  return challenge;
}

interface Redirect {
  redirectUri: string;
  responseType: string | undefined;
  state: string | undefined;
  issuer: string;
}

/** Undefined if the application is not on the web. */
function locationOf(
  { redirectUri, responseType, state, issuer }: Redirect,
  answer: Record<string, string>,
): string | undefined {
  if (redirectUri === outOfBand) return undefined;
  const part = responseType === 'token' ? 'fragment' : 'query';
  return withAnswer(redirectUri, part, { ...answer, ...(state !== undefined && { state }), iss: issuer });
}

export function denied(request: Request): string | undefined {
  return locationOf(request, { error: 'access_denied', error_description: 'the person did not allow it' });
}

/** The browser takes the response to the application, or the user copies the code. */
export async function allowed(
  { db, ids, address }: { db: Database; ids: IdSource; address: string },
  request: Request,
  person: { id: bigint; email: string },
): Promise<{ goTo: string } | { code: string }> {
  const { redirectUri, redirectUriSent, responseType, scopes, challenge, forMcp } = request;
  const by = inBrowser(person, address);
  const allowedIn = async (trx: Transaction): Promise<{ client: Client; grant: Grant }> => {
    const client = await storeDocument(trx, ids, request.client);
    const subject = { id: client.id, name: client.name };
    await recordAudit(trx, ids, by, { action: 'application.allowed', subject, details: { scopes } });
    return { client, grant: { clientId: client.id, userId: person.id, scopes, forMcp } };
  };
  if (responseType === 'token') {
    const token = await db.transaction(async (trx) => {
      const { client, grant } = await allowedIn(trx);
      const issued = await insertToken(trx, ids, grant, null);
      await recordAudit(trx, ids, by, tokenIssued(issued.id, client, scopes));
      return issued.token;
    });
    const answer = { access_token: token, token_type: 'bearer', scope: scopes.join(' ') };
    return { goTo: locationOf(request, answer) ?? unreachable() };
  }
  const code = await db.transaction(async (trx) => {
    const { grant } = await allowedIn(trx);
    return insertCode(trx, ids, { ...grant, redirectUri, redirectUriSent, challenge });
  });
  const goTo = locationOf(request, { code });
  return goTo === undefined ? { code } : { goTo };
}

function unreachable(): never {
  throw new Error('a token is never shown to be copied');
}
