import type { OrganisationView } from '../../shared/records/organisation.ts';
import { orMissing } from './parts.ts';
import type { PageVisit } from './pages.ts';

export const organisationsPath = '/ui/organisations';

/** A part of an organisation's page. */
export interface Shown {
  visit: PageVisit;
  organisation: OrganisationView;
  of: { organisation_id: string };
}

/** For users who are no members the organisation does not exist. */
export async function shownOrganisation(visit: PageVisit): Promise<Shown> {
  const organisations = await visit.api.get('/organisations');
  const organisation = orMissing(organisations.find(({ name }) => name === visit.param('organisation_name')));
  return { visit, organisation, of: { organisation_id: organisation.id_str } };
}

export function manages({ organisation: { role } }: Pick<Shown, 'organisation'>): boolean {
  return role === 'owner' || role === 'maintainer';
}
