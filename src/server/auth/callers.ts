import { ApiError } from '../../shared/errors.ts';
import type { Database } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import type { Incoming, RouteScope, Scope } from '../http/route.ts';
import { secretMatches } from '../../shared/lib/passwords.ts';
import type { Via } from './audit.ts';
import { authorizationOf } from './authorization.ts';
import { findTokenHolder, noteUse, sentToken } from './tokens.ts';
import { findUser, normalizeEmail } from './users.ts';

export interface Caller {
  readonly id: bigint;
  readonly email: string;
  readonly kind: 'user' | 'collaborator';
  /** Trial ended or invoices overdue: owned projects cannot be used, shared ones can. */
  readonly unpaid: boolean;
  readonly isOperator: boolean;
  readonly scopes: 'all' | ReadonlySet<Scope>;
  readonly via: Via;
  readonly application: string | null;
}

/** A visitor without credentials, who may only read public projects. */
export const anonymous: Caller = {
  id: 0n,
  email: '',
  kind: 'collaborator',
  unpaid: false,
  isOperator: false,
  scopes: 'all',
  via: 'nobody',
  application: null,
};

export function sendsCredentials(request: Incoming): boolean {
  return authorizationOf(request) !== undefined || request.query.oauth_token !== undefined;
}

/** All invalid credentials get the same response. */
export async function authenticate(request: Incoming, db: Database): Promise<Caller> {
  const token = sentToken(request);
  return token === undefined ? byApiKey(request, db) : byToken(token, db);
}

async function byApiKey(request: Incoming, db: Database): Promise<Caller> {
  const basic = readBasic(authorizationOf(request));
  const email = basic && normalizeEmail(basic.username);
  if (!basic || !email) throw new ApiError('unauthorized');
  const user = await findUser(db.read, email);
  if (!user?.api_key_hash || !secretMatches(basic.password, user.api_key_hash)) throw new ApiError('unauthorized');
  return callerFor(user, { scopes: 'all', via: 'api_key', application: null });
}

async function byToken(token: unknown, db: Database): Promise<Caller> {
  const { user, scopes, application, token: row } = await findTokenHolder(db.read, token);
  const caller = callerFor(user, { scopes, via: 'token', application });
  await noteUse(db, row);
  return caller;
}

/** The API itself does not accept a session as credentials. */
export function callerInBrowser(person: UserRow): Caller {
  return callerFor(person, { scopes: 'all', via: 'session', application: null });
}

/** The owner of a project, for whom a file in the project's repository acts. */
export function callerInRepository(owner: UserRow): Caller {
  return callerFor(owner, { scopes: 'all', via: 'repository', application: null });
}

/** Only an authenticated caller learns that the account is suspended. Organisations act only in their repositories. */
function callerFor(user: UserRow, proof: Pick<Caller, 'scopes' | 'via' | 'application'>): Caller {
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

function readBasic(header: string | undefined): { username: string; password: string } | undefined {
  if (header === undefined || !/^basic /i.test(header)) return undefined;
  const text = Buffer.from(header.slice(6).trim(), 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
