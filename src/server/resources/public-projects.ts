import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { organisationKind } from '../auth/organisations.ts';
import { ApiError } from '../../shared/errors.ts';
import { text } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import { publicProjectRecord } from '../../shared/records/project.ts';
import { listOf } from '../../shared/records/schema.ts';
import { likePattern, withIdString } from './common.ts';

/** Of a description. */
const longestShown = 300;

export const publicProjects = accountRoute({
  method: 'GET',
  path: '/public_projects',
  access: 'public',
  scope: 'never',
  summary: 'List the public projects of this server, the newest first',
  query: { filter: text('filter', { description: 'Only those with this text in their name' }) },
  paged: true,
  answer: listOf(publicProjectRecord),
  async handle({ db, page, publicProjects: isOpen, query: { filter } }) {
    if (!isOpen) throw new ApiError('not_found');
    const all = db
      .selectFrom('projects as p')
      .innerJoin('users as o', 'o.id', 'p.owner_id')
      .select(['p.id', 'p.name', 'p.description', 'p.build_state'])
      // The address of a person stays closed.
      .select((of) =>
        of.case().when('o.kind', '=', organisationKind).then(of.ref('o.email')).else('').end().as('organisation'),
      )
      .where('p.public', '=', 1);
    const wanted = filter === '' ? all : all.where(sql<boolean>`lower(p.name) like ${likePattern(filter)} escape '!'`);
    const rows = await onPage(wanted, 'p.id', page).execute();
    return pageOf(
      page,
      rows.map((row) => ({
        ...row,
        ...withIdString('id', row.id),
        description: row.description.slice(0, longestShown).toWellFormed(),
      })),
    );
  },
});
