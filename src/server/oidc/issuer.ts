import type { IncomingMessage } from 'node:http';
import type { Configuration, TokenEndpointResponse, UserInfoResponse } from 'openid-client';
import type { Vouched } from '../auth/identities.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import { failureText, guardedRequest } from '../../shared/lib/guarded-request.ts';
import type { Resolve } from '../../shared/lib/resolve.ts';
import type { TlsTrust } from '../../shared/lib/tls-trust.ts';

export interface IssuerSettings {
  issuer: string;
  clientId: string;
  clientSecret: string;
  redirectUri: string;
  /** Shown to users. */
  name: string;
  scopes: string[];
  groupsClaim: string;
  allowedGroups: string[];
  /** Blank for none. */
  operatorGroup: string;
  allowedDomains: string[];
  hasSignUp: boolean;
  trustsEmail: boolean;
}

/** What a sign-in at the issuer must match when the browser comes back. */
export interface Checks {
  state: string;
  nonce: string;
  verifier: string;
}

/**
 * - `silent`: no usable response, or a refusal that concerns this server and not the user.
 * - `refused`: the issuer does not sign this user in.
 * - `wrong`: the response belongs to another sign-in, client or user, or has a wrong signature.
 */
export type IssuerTrouble = 'silent' | 'refused' | 'wrong';

export class IssuerError extends Error {
  override name = 'IssuerError';
  readonly trouble: IssuerTrouble;

  constructor(trouble: IssuerTrouble, message: string, options?: ErrorOptions) {
    super(message, options);
    this.trouble = trouble;
  }
}

export interface Issuer {
  settings: IssuerSettings;
  /** False if the issuer gave no answer just now. */
  isThere(): Promise<boolean>;
  /** The address at the issuer for the browser. `asksAgain` requires a new sign-in there. */
  begin(checks: Checks, asksAgain?: boolean): Promise<string>;
  /** `search` is the query with which the browser came back. */
  finish(search: string, checks: Checks): Promise<Vouched>;
  /** Whether the issuer still vouches for the user, with its present facts about them. */
  lookAgain(refreshToken: string, subject: string): Promise<Vouched>;
}

export interface IssuerTimes {
  /** For one call to the issuer. */
  requestMs: number;
  /** For all calls of a page: with them it takes less than 20 seconds. */
  longestMs: number;
  /** How long a page waits to learn whether the issuer answers. */
  glanceMs: number;
}

export const usualTimes: IssuerTimes = { requestMs: 6_000, longestMs: 15_000, glanceMs: 4_000 };
const knownForMs = 60_000;

type Library = typeof import('openid-client');

export interface IssuerParts {
  settings: IssuerSettings;
  resolve: Resolve;
  trust: TlsTrust;
  onTrouble: (error: unknown) => void;
  times?: IssuerTimes;
}

export function createIssuer({ settings, resolve, trust, onTrouble, times = usualTimes }: IssuerParts): Issuer {
  const { requestMs, longestMs, glanceMs } = times;
  const { clientId, clientSecret, redirectUri } = settings;
  const server = new URL(settings.issuer);
  let known: { config: Configuration; at: number } | undefined;
  let asking: Promise<Configuration> | undefined;

  /** The operator named the issuer, so no rule restricts its address. Redirects are not followed. */
  const call = (url: string, { method, headers, body }: Called): Promise<Response> =>
    guardedRequest(
      { url, method, headers, body: textIn(body) },
      { mayCall: () => true, resolve, trust, answerWithin: requestMs, signal: new AbortController().signal },
      answerOf,
    );

  const discover = async (): Promise<Configuration> => {
    const library = await import('openid-client');
    const options = {
      [library.customFetch]: call as never,
      execute: [
        library.enableNonRepudiationChecks,
        ...(server.protocol === 'http:' ? [library.allowInsecureRequests] : []),
      ],
    };
    const config = await library.discovery(server, clientId, {}, authenticateWith(library, clientSecret), options);
    config.timeout = requestMs / 1000;
    return config;
  };

  const configuration = async (): Promise<Configuration> => {
    if (known && Date.now() - known.at < knownForMs) return known.config;
    asking ??= discover().finally(() => (asking = undefined));
    const config = await asking;
    known = { config, at: Date.now() };
    return config;
  };

  const attempt = async <T>(work: (library: Library, config: Configuration) => Promise<T> | T): Promise<T> => {
    try {
      return await within(longestMs, async () => {
        const config = await configuration();
        return work(await import('openid-client'), config);
      });
    } catch (error) {
      const told = troubleOf(error);
      if (told.trouble !== 'refused') onTrouble(told);
      throw told;
    }
  };

  /** Groups and address may be in the ID token, in the user info, or in both. */
  const vouchedIn = async (
    { fetchUserInfo }: Library,
    config: Configuration,
    tokens: TokenEndpointResponse & { claims(): object | undefined },
    subject: string,
  ): Promise<Vouched> => {
    const inToken = (tokens.claims() ?? {}) as Record<string, unknown>;
    const asked: UserInfoResponse | undefined =
      config.serverMetadata().userinfo_endpoint === undefined
        ? undefined
        : await fetchUserInfo(config, tokens.access_token, subject).catch((error: unknown) => {
            if (codeOf(error) !== 'OAUTH_WWW_AUTHENTICATE_CHALLENGE') throw error;
            throw new IssuerError('refused', textOf(error), { cause: error }); // a fresh token is refused with its user
          });
    const facts = [inToken, asked ?? {}] as Record<string, unknown>[];
    return {
      issuer: settings.issuer,
      subject,
      email: facts.map(verifiedAddress).find((address) => address !== undefined),
      hasAddress: facts.some(({ email }) => typeof email === 'string'),
      groups: facts.flatMap((claims) => textsIn(claims[settings.groupsClaim])),
      refreshToken: tokens.refresh_token,
    };
  };

  // The first visitor need not wait for it, and the log says at the start if the settings are wrong.
  configuration().catch((error: unknown) => onTrouble(troubleOf(error)));

  return {
    settings,
    async isThere() {
      const glance = within(glanceMs, configuration);
      return glance.then(
        () => true,
        () => false,
      );
    },
    begin: ({ state, nonce, verifier }, asksAgain = false) =>
      attempt(async (library, config) => {
        const prompts = [asksAgain && 'login', settings.scopes.includes('offline_access') && 'consent'].filter(Boolean);
        const parameters = {
          redirect_uri: redirectUri,
          scope: settings.scopes.join(' '),
          state,
          nonce,
          code_challenge: await library.calculatePKCECodeChallenge(verifier),
          code_challenge_method: 'S256',
          ...(prompts.length > 0 && { prompt: prompts.join(' ') }),
          ...(asksAgain && { max_age: '0' }),
        };
        return library.buildAuthorizationUrl(config, parameters).href;
      }),
    finish: (search, { state, nonce, verifier }) =>
      attempt(async (library, config) => {
        const checks = {
          expectedState: state,
          expectedNonce: nonce,
          pkceCodeVerifier: verifier,
          idTokenExpected: true,
        };
        const tokens = await library.authorizationCodeGrant(config, new URL(redirectUri + search), checks);
        return vouchedIn(library, config, tokens, tokens.claims()?.sub ?? '');
      }),
    lookAgain: (refreshToken, subject) =>
      attempt(async (library, config) => {
        const tokens = await library.refreshTokenGrant(config, refreshToken);
        const named = tokens.claims()?.sub ?? subject;
        if (named !== subject) throw new IssuerError('wrong', 'the issuer answered for another user');
        const vouched = await vouchedIn(library, config, tokens, subject);
        return { ...vouched, refreshToken: vouched.refreshToken ?? refreshToken };
      }),
  };
}

const encoded = (text: string): string => new URLSearchParams({ '': text }).toString().slice(1);

/**
 * Issuers decode Basic credentials differently. Here, only characters that need it are encoded, so ordinary identifiers
 * and secrets read the same either way.
 */
function authenticateWith({ ClientSecretPost }: Library, secret: string): ReturnType<Library['ClientSecretPost']> {
  const post = ClientSecretPost(secret);
  return (as, client, body, headers) => {
    const methods = as.token_endpoint_auth_methods_supported;
    if (methods && !methods.includes('client_secret_basic')) return post(as, client, body, headers);
    const credentials = `${encoded(client.client_id)}:${encoded(secret)}`;
    headers.set('authorization', `Basic ${Buffer.from(credentials).toString('base64')}`);
  };
}

/** The library sends parameters of a form. */
function textIn(body: unknown): string | undefined {
  return body instanceof URLSearchParams ? body.toString() : typeof body === 'string' ? body : undefined;
}

interface Called {
  method: string;
  headers: Record<string, string>;
  body?: unknown;
}

async function answerOf(incoming: IncomingMessage): Promise<Response> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > bytes.issuerAnswer) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  const status = incoming.statusCode ?? 0;
  if (status < 200) throw new Error(`the answer has the status ${status}`);
  const headers = new Headers();
  for (const [name, values = []] of Object.entries(incoming.headersDistinct))
    for (const value of values) headers.append(name, value);
  const isBodiless = [204, 205, 304].includes(status);
  return new Response(isBodiless ? null : Buffer.concat(chunks), { status, headers });
}

async function within<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new IssuerError('silent', `no answer within ${ms / 1000} seconds`)), ms);
  try {
    return await Promise.race([work(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Errors of the library by their documented properties, because its classes load only with it. */
function troubleOf(error: unknown): IssuerError {
  if (error instanceof IssuerError) return error;
  const { code, error: refusal, status, cause } = error as Partial<Record<string, unknown>>;
  const text = textOf(error);
  if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR') return new IssuerError('refused', text, { cause: error });
  if (code === 'OAUTH_RESPONSE_BODY_ERROR')
    return new IssuerError(refusal === 'invalid_grant' && Number(status) < 500 ? 'refused' : 'silent', text, {
      cause: error,
    });
  const isAnswer = typeof code === 'string' && code.startsWith('OAUTH_');
  if (!isAnswer) return new IssuerError('silent', text, { cause: error });
  const unusable = [
    'OAUTH_WWW_AUTHENTICATE_CHALLENGE',
    'OAUTH_TIMEOUT',
    'OAUTH_ABORT',
    'OAUTH_RESPONSE_IS_NOT_CONFORM',
    'OAUTH_RESPONSE_IS_NOT_JSON',
  ];
  const isSilent = unusable.includes(code) || isUnusable(cause);
  return new IssuerError(isSilent ? 'silent' : 'wrong', text, { cause: error });
}

/** A response with an unexpected status has no verdict about a user. */
function isUnusable(cause: unknown): boolean {
  return cause instanceof Response && cause.status >= 400;
}

function textOf(error: unknown): string {
  const { cause, error: code } = error as { cause?: unknown; error?: unknown };
  const said = typeof code === 'string' ? `${failureText(error)} (${code})` : failureText(error);
  if (typeof code === 'string') return said;
  return cause instanceof Error && !('code' in cause && String(cause.code).startsWith('OAUTH_'))
    ? `${said}: ${failureText(cause)}`
    : said;
}

/** Only if the issuer has verified it. Some issuers write the flag as a text. */
function verifiedAddress({ email, email_verified: isVerified }: Record<string, unknown>): string | undefined {
  return typeof email === 'string' && (isVerified === true || isVerified === 'true') ? email : undefined;
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter((one): one is string => typeof one === 'string') : [];
}
