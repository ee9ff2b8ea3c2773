import type { Sealed } from './values.ts';

/** Accounts, and what opens them: sessions, tokens, applications, runners; and what was done with them. */

export interface UserRow {
  id: bigint;
  email: string;
  /** null until an invited person has set one. */
  password_hash: string | null;
  api_key_hash: string | null;
  kind: string;
  suspended: number;
  billing: string;
  created_at: bigint;
  /** Whether the person may see what concerns the whole installation. */
  operator: number;
}

/** Somebody is signed in, in one browser. */
export interface SessionRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** A link with which a person sets their password, once. */
export interface PasswordLinkRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** How often signing in went wrong for an account or from an address. */
export interface SignInFailureRow {
  id: bigint;
  subject: string;
  failures: number;
  last_at: bigint;
  refused_until: bigint;
  /** When the audit log was last told of it. */
  noted_at: bigint;
}

export interface AccessTokenRow {
  id: bigint;
  token_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** With spaces between them. */
  scopes: string;
  /** The code it was given for: when that one comes again, the token goes. null in the implicit flow. */
  code_hash: string | null;
  created_at: bigint;
  /** To the hour. */
  last_used_at: bigint | null;
}

/** An application that acts for people. Its identifier is what it is called by in requests. */
export interface OauthClientRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  /** A list, as JSON. */
  redirect_uris: string;
  /** null for one that is distributed without a secret. */
  secret_hash: string | null;
  created_at: bigint;
}

/** A code that was given and not yet redeemed. */
export interface OauthCodeRow {
  id: bigint;
  code_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** With spaces between them. */
  scopes: string;
  redirect_uri: string;
  redirect_uri_sent: number;
  code_challenge: string | null;
  expires_at: bigint;
}

export interface RunnerRow {
  id: bigint;
  name: string;
  token_hash: string;
  created_at: bigint;
  /** Its token opens nothing from then on. */
  revoked_at: bigint | null;
}

/** A runner that came, or that a server has tried to start beside itself; see auth/runner-visits.ts. */
export interface RunnerVisitRow {
  /** What its claims are held under. */
  holder: string;
  /** null for one on a server's own machine. */
  runner_id: bigint | null;
  /** By the database's clock, to a few seconds. */
  seen_at: bigint;
  /** Of the program; empty when it did not say. */
  version: string;
  /** Why it can do nothing, for operators; empty when it can. */
  trouble: string;
}

/** A runner with such rows works for these accounts alone, one without for all. */
export interface RunnerAccountRow {
  id: bigint;
  runner_id: bigint;
  account_id: bigint;
}

export interface IdempotencyKeyRow {
  id: bigint;
  user_id: bigint;
  key: string;
  request_hash: string;
  status: number;
  answer: Sealed;
  created_at: bigint;
}

/** Who did what. Rows are only ever added; triggers in the database refuse anything else. */
export interface AuditEntryRow {
  id: bigint;
  created_at: bigint;
  /** The kind of thing, a dot, and what was done to it. */
  action: string;
  /** As they were then; null for an operator on the machine, and where nobody proved to be anybody. */
  actor_id: bigint | null;
  actor_email: string | null;
  via: string;
  application: string | null;
  address: string | null;
  subject_id: bigint | null;
  subject_name: string;
  project_id: bigint | null;
  /** An object, as JSON. */
  details: string;
}
