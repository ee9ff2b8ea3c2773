import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import { entryView } from '../auth/audit.ts';
import { pageOf } from '../http/paging.ts';
import * as schema from '../http/schema.ts';
import { idTwin } from './common.ts';

const answer = schema.record({
  ...idTwin,
  created_at: schema.dateTime,
  action: schema.string,
  actor: schema.nullable(schema.record({ ...idTwin, email: schema.string })),
  via: schema.string,
  application: schema.nullable(schema.string),
  address: schema.nullable(schema.string),
  subject: schema.record({
    type: schema.string,
    id: schema.nullable(schema.id),
    id_str: schema.string,
    name: schema.string,
  }),
  project_id: schema.nullable(schema.id),
  project_id_str: schema.string,
  details: { type: 'object', additionalProperties: true },
});

/** Entries are written together with the changes (auth/audit.ts). Here they are only read. */
export const routes = [
  accountRoute({
    method: 'GET',
    path: '/audit',
    access: 'operators',
    scope: 'user',
    summary: 'List the audit log: changes to access, secrets, runners, applications and deploys',
    paged: true,
    answer: schema.listOf(answer),
    async handle({ db, page }) {
      const rows = await onPage(db.selectFrom('audit_entries').selectAll(), 'id', page).execute();
      return pageOf(page, rows.map(entryView));
    },
  }),
];
