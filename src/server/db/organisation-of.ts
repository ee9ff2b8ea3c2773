import { sql } from 'kysely';

/** The owner of the selected record if that is an organisation, otherwise null. */
export const organisationOf = sql<bigint | null>`(
  select organisations.id from organisations where organisations.id = owner_id
)`.as('organisation_id');
