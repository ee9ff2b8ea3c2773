import { longest } from '../../shared/domain/bounds.ts';
import { oneOf, required, text } from '../../shared/records/fields.ts';
import type { User } from '../../shared/records/installation.ts';
import { html, type Html } from './html.ts';
import { fieldTable } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { ago } from './moments.ts';
import type { PageVisit } from './pages.ts';
import { beside, cursors, filterForm, pagination, section, table } from './parts.ts';

const perPage = 50;

export async function accountsPart(visit: PageVisit): Promise<Html> {
  const search = visit.queryText('email').slice(0, longest.email);
  const found = await visit.api.list('/users', { query: { limit: perPage, email: search, ...cursors(visit) } });
  const rows = found.items.map((one) => row(visit, one));
  const none = html`<p class="aside">No address has that in it.</p>`;
  return section(
    'accounts',
    'Accounts',
    beside(
      html`${filterForm(`${visit.path}#accounts`, {
        name: 'email',
        label: 'Search',
        value: search,
        most: longest.email,
        button: 'Search',
      })}
      ${refusal(visit)} ${table('Accounts', ['Account', 'Standing', 'Since', 'Actions'], rows, { none })}
      ${pagination(found, { path: visit.path, query: { email: search } })}`,
      invitation(visit),
    ),
    { isTarget: true },
  );
}

/** The refusal appears above the rows, because a row has no room for it. */
function refusal({ refused }: PageVisit): Html | undefined {
  if (!refused || refused.action === 'invite' || refused.message === undefined) return undefined;
  return html`<p class="notice bad" role="alert">${refused.message}</p>`;
}

function row(visit: PageVisit, account: User): Html {
  const { id_str: id, email, kind, operator, suspended, billing, has_password: hasPassword } = account;
  const emailId = `account-${id}`;
  const button = (action: string, name: string): Html =>
    pageForm({ ...visit, refused: undefined }, action, { user_id: id }).wrap(false, {
      button: name,
      kind: 'quiet',
      describedBy: emailId,
    });
  const standing = [
    operator && 'operator',
    kind === 'collaborator' && 'collaborator',
    suspended && 'suspended',
    billing !== 'ok' && billing.replaceAll('_', ' '),
    !hasPassword && 'no password yet',
  ].filter((word) => word !== false);
  return html`<tr>
    <td id="${emailId}">${email}</td>
    <td>${standing.length === 0 ? '–' : standing.join(', ')}</td>
    <td>${ago(account.created_at)}</td>
    <td>
      <div class="row end">
        ${!hasPassword && button('link', 'New link')}
        ${suspended ? button('resume', 'Resume') : account.id !== visit.person.id && button('suspend', 'Suspend')}
      </div>
    </td>
  </tr>`;
}

const accountForm = fieldTable(
  { email: required(text('email')), kind: oneOf(['user', 'collaborator']) },
  {
    email: { label: 'E-mail', type: 'email', wrong: 'This is no e-mail address.' },
    kind: {
      label: 'Kind',
      choices: [
        ['user', 'Owns projects'],
        ['collaborator', 'Works on projects of others'],
      ],
    },
  },
);

function invitation(visit: PageVisit): Html {
  const form = recordForm(visit, 'invite', accountForm);
  return html`<section aria-labelledby="invite-title">
    <h3 id="invite-title">Invite a user</h3>
    ${form.wrap(form.fields(), { button: 'Invite', isCard: true, label: 'Invite a user' })}
  </section>`;
}
