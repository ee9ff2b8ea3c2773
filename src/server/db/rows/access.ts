import type { Sealed } from './values.ts';

export interface UserRow {
  id: bigint;
  email: string;
  /** null until an invited user has set one. */
  password_hash: string | null;
  api_key_hash: string | null;
  kind: string;
  suspended: number;
  billing: string;
  created_at: bigint;
  operator: number;
  /** 1 if the user takes news by e-mail. */
  news: number;
  /** The account was made by an invitation that was shown, so its address is unverified. */
  by_invitation: number;
  /** 1 if the password was set with an operator's link. */
  password_by_link: number;
  /** 1 if a passkey or a recovery code is required after the password. */
  asks_passkey: number;
  /** Why the issuer's sign-in no longer admits the user (auth/identities.ts); empty if it does, or if there is none. */
  shut_out: string;
}

export interface OrganisationRow {
  id: bigint;
  description: string;
}

export interface OrganisationMemberRow {
  id: bigint;
  organisation_id: bigint;
  user_id: bigint;
  role: string;
  since: bigint;
  invited_by: bigint | null;
  /** null for a member. */
  invitation_hash: string | null;
  expires_at: bigint | null;
}

export interface SessionRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
  /** When the user last proved who they are. */
  proven_at: bigint;
  /** 1 if the issuer signed the user in. */
  by_issuer: number;
}

/** A user at the issuer of the settings. */
export interface IdentityRow {
  id: bigint;
  user_id: bigint;
  issuer: string;
  subject: string;
  refresh_token: Sealed | null;
  /** 1 if the operator group made the user an operator. */
  operator: number;
  /** When the issuer is asked again; null without a refresh token. */
  look_at: bigint | null;
  /** Since when the issuer gives no answer; null if it did. */
  silent_since: bigint | null;
}

/** A sign-in in progress, in one browser. */
export interface SignInFlowRow {
  id: bigint;
  token_hash: string;
  data: Sealed;
  expires_at: bigint;
}

export interface PasskeyRow {
  id: bigint;
  user_id: bigint;
  name: string;
  credential_id: string;
  public_key: string;
  counter: bigint;
  /** Separated by spaces. */
  transports: string;
  created_at: bigint;
  last_used_at: bigint | null;
}

export interface RecoveryCodeRow {
  id: bigint;
  user_id: bigint;
  code_hash: string;
}

export interface PasswordLinkRow {
  id: bigint;
  token_hash: string;
  user_id: bigint;
  expires_at: bigint;
}

export interface SignInFailureRow {
  id: bigint;
  subject: string;
  failures: number;
  last_at: bigint;
  refused_until: bigint;
  /** When the audit log last recorded it. */
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
  /** 1: it opens only `/mcp`. */
  for_mcp: number;
}

/** A token that a user made. */
export interface UserTokenRow {
  id: bigint;
  owner_id: bigint;
  name: string;
  token_hash: string;
  /** Separated by spaces, as the projects. */
  scopes: string;
  /** Empty for all. */
  project_ids: string;
  expires_at: bigint;
  /** A few seconds late. */
  last_used_at: bigint | null;
  last_used_from: string | null;
  created_at: bigint;
  /** When its owner gets an e-mail that it ends; null once that is sent, and if none is. */
  tell_at: bigint | null;
}

export interface OauthClientRow {
  id: bigint;
  /** null for the application that comes with Headrace, and for those that are not registered. */
  owner_id: bigint | null;
  name: string;
  redirect_uris: string;
  /** null for an application distributed without a secret. */
  secret_hash: string | null;
  created_at: bigint;
  /** null for a registered application. */
  document_url: string | null;
}

export interface OauthCodeRow {
  id: bigint;
  code_hash: string;
  client_id: bigint;
  user_id: bigint;
  scopes: string;
  redirect_uri: string;
  redirect_uri_sent: number;
  code_challenge: string | null;
  expires_at: bigint;
  for_mcp: number;
}

export interface RunnerRow {
  id: bigint;
  name: string;
  token_hash: string;
  created_at: bigint;
  revoked_at: bigint | null;
  draining: number;
}

/** A runner that requested work, or that a server tried to start on its machine (auth/runner-heartbeats.ts). */
export interface RunnerHeartbeatRow {
  /** Slots for builds; 0 if the runner did not report them. */
  slots: number;
  holder: string;
  /** null for a runner on a server's own machine. */
  runner_id: bigint | null;
  /** By the database's clock, to a few seconds. */
  seen_at: bigint;
  version: string;
  /** Why it cannot work, for operators; empty if it can. */
  trouble: string;
  tags: string;
}

/** A runner with such rows serves only these accounts. A runner without them serves all. */
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

/** Append-only: triggers in the database refuse other changes. */
export interface AuditEntryRow {
  id: bigint;
  created_at: bigint;
  /** The kind of subject, a dot, and the action. */
  action: string;
  actor_id: bigint | null;
  actor_email: string | null;
  via: string;
  application: string | null;
  address: string | null;
  subject_id: bigint | null;
  subject_name: string;
  project_id: bigint | null;
  /** Who owned the project, organisation or record then. */
  account_id: bigint | null;
  details: string;
}

/** By the id of its build. */
export interface BuildTokenRow {
  id: bigint;
  token_hash: string;
  starts_builds: number;
}
