import { onPage } from '../api/pages.ts';
import { accountRoute, organisationRoute } from '../api/route.ts';
import { entryView } from '../auth/audit.ts';
import { pageOf } from '../http/paging.ts';
import { auditEntryRecord } from '../../shared/records/installation.ts';
import { listOf } from '../../shared/records/schema.ts';

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/audit',
    access: 'operators',
    scope: 'user',
    summary: 'List the audit log: changes to access, secrets, runners, applications and deploys',
    paged: true,
    answer: listOf(auditEntryRecord),
    async handle({ db, page }) {
      const rows = await onPage(db.selectFrom('audit_entries').selectAll(), 'id', page).execute();
      return pageOf(page, rows.map(entryView));
    },
  }),
  organisationRoute({
    method: 'GET',
    path: '/organisations/:organisation_id/audit',
    access: 'owner',
    scope: 'organisations',
    summary: 'List what was done to an organisation and to what it owns',
    paged: true,
    answer: listOf(auditEntryRecord),
    async handle({ db, organisation: { id }, page }) {
      const entries = db.selectFrom('audit_entries').selectAll();
      const own = entries.where((of) =>
        of.or([
          of('account_id', '=', id),
          of('subject_id', '=', id),
          of('project_id', 'in', of.selectFrom('projects').select('projects.id').where('owner_id', '=', id)),
        ]),
      );
      return pageOf(page, (await onPage(own, 'id', page).execute()).map(entryView));
    },
  }),
];
