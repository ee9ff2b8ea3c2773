import type { Static } from 'typebox';
import { boolean, dateTime, ownId, nullable, optional, record, string, strings } from './schema.ts';

const fields = { ...ownId, name: string, public: boolean, redirect_uris: strings, created_at: dateTime };
export const applicationRecord = record('Application', fields);
export type Application = Static<typeof applicationRecord>;
/** Only the response to its creation has the secret. A public application has none. */
export const secretApplicationRecord = record('SecretApplication', { ...fields, client_secret: optional(string) });
export type SecretApplication = Static<typeof secretApplicationRecord>;

/** An application that the caller allowed to act for them. */
export const authorizationRecord = record('Authorization', {
  ...ownId,
  name: string,
  owner: nullable(string),
  scopes: strings,
  created_at: dateTime,
  last_used_at: nullable(dateTime),
});
export type Authorization = Static<typeof authorizationRecord>;

export const apiKeyRecord = record('ApiKey', { ...ownId, email: string, api_key: string });
