import type { Sealed } from './values.ts';

/** Accounts and their credentials: sessions, tokens, applications, runners; and the audit log. */

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
  /** Whether the person may see data of the whole installation. */
  operator: number;
}

/** One signed-in browser. */
export interface SessionRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** A link with which a person sets their password once. */
export interface PasswordLinkRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

/** How often signing in failed for an account or from an address. */
export interface SignInFailureRow {
  id: bigint;
  subject: string;
  failures: number;
  last_at: bigint;
  refused_until: bigint;
  /** When the audit log last noted it. */
  noted_at: bigint;
}

export interface AccessTokenRow {
  id: bigint;
  token_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** Separated by spaces. */
  scopes: string;
  /** The code that it was issued for: if the code is used again, the token is revoked. null in the implicit flow. */
  code_hash: string | null;
  created_at: bigint;
  /** To the hour. */
  last_used_at: bigint | null;
}

/** An application that acts for people. In requests it is named by its identifier. */
export interface OauthClientRow {
  id: bigint;
  /** null for the application that comes with the program. */
  owner_id: bigint | null;
  name: string;
  /** A list, as JSON. */
  redirect_uris: string;
  /** null for an application that is distributed without a secret. */
  secret_hash: string | null;
  created_at: bigint;
}

/** A code that was issued and not redeemed yet. */
export interface OauthCodeRow {
  id: bigint;
  code_hash: string;
  client_id: bigint;
  user_id: bigint;
  /** Separated by spaces. */
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
  /** From then on its token is invalid. */
  revoked_at: bigint | null;
  /** Whether it gets no more work. */
  draining: number;
}

/** A runner that asked for work, or that a server tried to start on its machine; see auth/runner-heartbeats.ts. */
export interface RunnerHeartbeatRow {
  /** How many slots for builds it has; 0 where it has not said. */
  slots: number;
  /** The holder of its claims. */
  holder: string;
  /** null for a runner on a server's own machine. */
  runner_id: bigint | null;
  /** By the database's clock, to a few seconds. */
  seen_at: bigint;
  /** Of the program; empty when the runner did not send it. */
  version: string;
  /** Why it cannot work, for operators; empty when it can. */
  trouble: string;
  /** As one text. */
  tags: string;
}

/** A runner with such rows works for these accounts only, a runner without them for all. */
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

/** Who did what. Rows are only added; triggers in the database refuse other changes. */
export interface AuditEntryRow {
  id: bigint;
  created_at: bigint;
  /** The kind of subject, a dot, and the action. */
  action: string;
  /** As the account was then; null for an operator on the machine, and for callers that were not authenticated. */
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
