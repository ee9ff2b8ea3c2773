import type { Static } from 'typebox';
import { identifiers, described, isBlank, moment, required, severalOf, text, type Field } from './fields.ts';
import { dateTime, id, listOf, nullable, ownId, record, string, strings } from './schema.ts';
import { ApiError } from '../errors.ts';

/** The scopes are known to the server alone. */
export function tokenFields<const Scope extends string>(scopes: readonly Scope[]) {
  return {
    name: required(text('tokenName')),
    scopes: required(atLeastOne(severalOf(scopes))),
    project_ids: described(identifiers('projectsOfToken'), 'the only projects that it opens; by default all'),
    expires_at: moment('at most a year from now; by default in 90 days'),
  };
}

/** A blank list must not become all choices, and a form begins with none. */
function atLeastOne<One, Column>(field: Field<One[], Column>): Field<One[], Column> {
  const { default: _all, ...schema } = field.schema;
  return {
    ...field,
    fallback: [],
    schema,
    parse(raw) {
      if (Array.isArray(raw) && raw.every(isBlank)) throw new ApiError('is_blank');
      return field.parse(raw);
    },
  };
}

const fields = {
  ...ownId,
  name: string,
  scopes: strings,
  project_ids: listOf(id),
  expires_at: dateTime,
  last_used_at: nullable(dateTime),
  last_used_from: nullable(string),
  created_at: dateTime,
};
export const tokenRecord = record('Token', fields);
export type Token = Static<typeof tokenRecord>;
/** Only the response to its creation has the token itself. */
export const secretTokenRecord = record('SecretToken', { ...fields, token: string });
export type SecretToken = Static<typeof secretTokenRecord>;
