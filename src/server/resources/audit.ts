import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
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
];
