import { providerNames } from '../domain/forge-providers.ts';
import type { Static } from 'typebox';
import { described, answersOf, oneOf, refined, required, text, wholeNumber } from './fields.ts';
import { isWebAddress } from './forms.ts';
import {
  boolean,
  dateTime,
  listOf,
  nullable,
  nullableIdWithString,
  ownId,
  record,
  stateOf,
  string,
  wordOf,
} from './schema.ts';

export const forgeStates = ['connected', 'refused', 'unreachable'] as const;
export type ForgeState = (typeof forgeStates)[number];

export const linkStates = ['none', 'connected', 'incomplete'] as const;

/** It becomes part of a header, so only visible ASCII characters are allowed. */
export const forgeToken = refined(text('forgeToken', { pattern: /^ *[\x21-\x7e]+ *$/ }), (value) => value.trim());

const url = refined(
  text('webAddress', {
    check: (value) => isWebAddress(value) && !/[?#]/.test(value),
    description: 'The forge’s web address; blank for the public one',
  }),
  (value) => {
    const { origin, pathname } = new URL(value);
    // Documentation shows the address of the API. The forge's own follows from it.
    return `${origin}${pathname.replace(/\/+$/, '').replace(/\/api\/v\d+$/, '')}`;
  },
);

export const forgeFields = { provider: required(oneOf(providerNames)), url };

export const forgeRecord = record('Forge', {
  ...ownId,
  ...answersOf(forgeFields),
  login: string,
  may: nullable(listOf(wordOf(['read', 'keys', 'hooks', 'statuses']))),
  checked_at: dateTime,
  state: stateOf(forgeStates),
  state_reason: string,
});
export type Forge = Static<typeof forgeRecord>;

/** It becomes part of a path, so no segment can be `.` or `..`. */
export const forgeRepository = text('repository', {
  pattern: /^(?!\.{1,2}\/)[\w.~-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/,
  description: 'owner/name; at GitLab the whole path',
});

export const repositoryQuery = {
  query: text('filter', { description: 'Only repositories with this in their name' }),
  page: described(wholeNumber({ min: 1, max: 1000, fallback: 1 }), 'The page of the list'),
};

export const forgeRepositoryRecord = record('ForgeRepository', {
  full_name: string,
  ssh_url: string,
  https_url: string,
  default_branch: string,
  private: boolean,
  archived: boolean,
  may_administer: boolean,
  ...nullableIdWithString('project_id'),
});
export type ForgeRepository = Static<typeof forgeRepositoryRecord>;
