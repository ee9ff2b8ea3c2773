import { ApiError } from '../../shared/errors.ts';
import type { Database } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import type { Incoming, RouteScope, Scope } from '../http/route.ts';
import { secretMatches } from '../../shared/lib/passwords.ts';
import type { Via } from './audit.ts';
import { authorizationOf } from './authorization.ts';
import { findBuildToken } from './build-tokens.ts';
import type { TokenUses } from './token-uses.ts';
import { findTokenHolder, isTokenForm, noteUse } from './tokens.ts';
import { findUserToken } from './user-tokens.ts';
import { findUser, normalizeEmail } from './users.ts';

export interface Caller {
  readonly id: bigint;
  readonly email: string;
  readonly kind: 'user' | 'collaborator';
  /** Trial ended or invoices overdue: owned projects cannot be used, shared ones can. */
  readonly unpaid: boolean;
  readonly isOperator: boolean;
  readonly scopes: 'all' | ReadonlySet<Scope>;
  /** Other projects do not exist for the caller, and nothing that belongs to a whole account is open (admission.ts). */
  readonly projects: 'all' | ReadonlySet<bigint>;
  readonly via: Via;
  /** The name of the application, or of the user's token. */
  readonly application: string | null;
  /** For a session: the user proved within `proofMs` who they are. */
  readonly isProven?: boolean;
  /** For a running build: whether it may start builds in addition to reading. */
  readonly startsBuilds?: boolean;
}

/** A visitor without credentials, who may only read public projects. */
export const anonymous: Caller = {
  id: 0n,
  email: '',
  kind: 'collaborator',
  unpaid: false,
  isOperator: false,
  scopes: 'all',
  projects: 'all',
  via: 'nobody',
  application: null,
};

export function sendsCredentials(request: Incoming): boolean {
  return authorizationOf(request) !== undefined || request.query.oauth_token !== undefined;
}

export interface Authentication {
  db: Database;
  tokenUses: TokenUses;
}

/**
 * All invalid credentials get the same response. Only an application's token may be in the address, because addresses
 * are logged and shared.
 */
export async function authenticate(request: Incoming, by: Authentication, address: string): Promise<Caller> {
  const authorization = authorizationOf(request);
  if (authorization === undefined) return byAccessToken(request.query.oauth_token, by);
  const [, bearer] = /^bearer +(\S+)$/i.exec(authorization) ?? [];
  if (bearer !== undefined) return byBearer(bearer, by, address);
  const basic = readBasic(authorization);
  const email = basic && normalizeEmail(basic.username);
  if (!basic || !email) throw new ApiError('unauthorized');
  if (!isTokenForm(basic.password)) return byApiKey(email, basic.password, by);
  const caller = await byUserToken(basic.password, by, address, email);
  if (!caller) throw new ApiError('unauthorized');
  return caller;
}

/** For `/mcp`: only a token in the header, which may be a token that opens nothing else. */
export async function authenticateAgent(
  request: Pick<Incoming, 'headers'>,
  by: Authentication,
  address: string,
): Promise<Caller> {
  const [, bearer] = /^bearer +(\S+)$/i.exec(authorizationOf(request) ?? '') ?? [];
  if (bearer === undefined) throw new ApiError('unauthorized');
  return byBearer(bearer, by, address, 'mcp');
}

type Place = 'api' | 'mcp';

async function byBearer(token: string, by: Authentication, address: string, place?: Place): Promise<Caller> {
  return (await byUserToken(token, by, address)) ?? (await byBuildToken(token, by)) ?? byAccessToken(token, by, place);
}

async function byApiKey(email: string, key: string, { db }: Authentication): Promise<Caller> {
  const user = await findUser(db.read, email);
  if (!user?.api_key_hash || !secretMatches(key, user.api_key_hash)) throw new ApiError('unauthorized');
  return callerFor(user, { ...everything, via: 'api_key', application: null });
}

async function byAccessToken(token: unknown, { db }: Authentication, place: Place = 'api'): Promise<Caller> {
  const { user, scopes, application, forMcp, token: row } = await findTokenHolder(db.read, token);
  if (forMcp && place !== 'mcp') throw new ApiError('unauthorized');
  const caller = callerFor(user, { scopes, projects: 'all', via: 'token', application });
  await noteUse(db, row);
  return caller;
}

/** Undefined if it is no token of a user, or not of the user with this address. */
async function byUserToken(
  token: string,
  { db, tokenUses }: Authentication,
  address: string,
  email?: string,
): Promise<Caller | undefined> {
  const found = await findUserToken(db.read, token);
  if (!found || (email !== undefined && email !== found.user.email)) return undefined;
  const { user, id, name, scopes, projects } = found;
  const caller = callerFor(user, { scopes, projects, via: 'user_token', application: name });
  tokenUses.note(id, address);
  return caller;
}

/** A build is no user: it reads what anybody may read of a public project. */
async function byBuildToken(token: string, { db }: Authentication): Promise<Caller | undefined> {
  const found = await findBuildToken(db.read, token);
  if (!found) return undefined;
  const { project, suite, startsBuilds } = found;
  const scopes = new Set<Scope>(['projects', 'build_requests', 'build_requests_create', 'commits']);
  return { ...anonymous, via: 'build', scopes, projects: new Set([project]), application: suite, startsBuilds };
}

const everything = { scopes: 'all', projects: 'all' } as const;

/** The API itself does not accept a session as credentials. */
export function callerInBrowser(person: UserRow, { isProven = false } = {}): Caller {
  return { ...callerFor(person, { ...everything, via: 'session', application: null }), isProven };
}

/** The owner of a project, for whom a file in the project's repository acts. */
export function callerInRepository(owner: UserRow): Caller {
  return callerFor(owner, { ...everything, via: 'repository', application: null });
}

/** Only an authenticated caller learns that the account is suspended. Organisations act only in their repositories. */
function callerFor(user: UserRow, proof: Pick<Caller, 'scopes' | 'projects' | 'via' | 'application'>): Caller {
  if (user.kind !== 'user' && user.kind !== 'collaborator' && proof.via !== 'repository')
    throw new ApiError('unauthorized');
  if (user.suspended) throw new ApiError('account_suspended');
  if (user.shut_out !== '') throw new ApiError('unauthorized');
  return {
    id: user.id,
    email: user.email,
    kind: user.kind === 'collaborator' ? 'collaborator' : 'user',
    unpaid: !isPaying(user),
    isOperator: user.operator === 1,
    ...proof,
  };
}

export function isPaying({ billing }: Pick<UserRow, 'billing'>): boolean {
  return billing === 'ok';
}

export function hasScope({ scopes }: Pick<Caller, 'scopes'>, scope: Scope): boolean {
  return scopes === 'all' || scopes.has(scope);
}

export function requireScope(caller: Caller, scope: RouteScope): void {
  if (caller.scopes === 'all' || scope === 'any' || scope === 'none') return;
  if (scope === 'never' || !caller.scopes.has(scope)) throw new ApiError('unauthorized');
}

/** Whether the credentials are good for the project. */
export function reaches({ projects }: Pick<Caller, 'projects'>, projectId: bigint): boolean {
  return projects === 'all' || projects.has(projectId);
}

function readBasic(header: string): { username: string; password: string } | undefined {
  if (!/^basic /i.test(header)) return undefined;
  const text = Buffer.from(header.slice(6).trim(), 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
