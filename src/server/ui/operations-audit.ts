import type { AuditEntry } from '../../shared/records/installation.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { page } from './pages.ts';
import { cursors, pagination, table } from './parts.ts';

const perPage = 50;

export function auditTable(entries: readonly AuditEntry[]): Html {
  return table('Audit log', ['Action', 'Of', 'By', 'Via', 'When'], entries.map(row), {
    none: html`<p class="aside">Nothing was changed yet.</p>`,
  });
}

function row({ action, subject, actor, via, application, address, details, created_at: at }: AuditEntry): Html {
  const facts = Object.entries(details).map(
    ([name, value]) => `${name.replace(/_id_str$/, '').replaceAll('_', ' ')}: ${factText(value)}`,
  );
  return html`<tr>
    <td><strong>${action.replaceAll(/[._]/g, ' ')}</strong></td>
    <td class="long-name">
      ${subject.name || `${subject.type} ${subject.id_str}`}
      ${facts.length > 0 && html`<br /><span class="aside">${facts.join('; ')}</span>`}
    </td>
    <td>${actor?.email ?? '–'}</td>
    <td>
      ${application ?? via.replaceAll('_', ' ')}
      ${address !== null && html`<br /><span class="aside">${address}</span>`}
    </td>
    <td class="nowrap">${ago(at)}</td>
  </tr>`;
}

const longestFact = 200;

function factText(value: unknown): string {
  const isPlain = typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
  const text = isPlain ? [value].flat().join(', ') : JSON.stringify(value);
  return text.length > longestFact ? `${text.slice(0, longestFact).toWellFormed()}…` : text;
}

export const auditRoutes = page({
  path: '/ui/operations/audit',
  async show(visit) {
    const found = await visit.api.list('/audit', { query: { limit: perPage, ...cursors(visit) } });
    return {
      title: 'Audit log',
      main: html`<h1>Audit log</h1>
        <p><a href="/ui/operations">Operations</a></p>
        ${auditTable(found.items)} ${pagination(found, { path: visit.path })}`,
    };
  },
});
