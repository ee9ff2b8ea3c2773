import type { User } from '../../shared/records/installation.ts';
import { html, type Html } from './html.ts';
import { pageForm } from './forms.ts';
import { ago } from './moments.ts';
import type { PageVisit } from './pages.ts';
import { pagination, table } from './parts.ts';

const perPage = 50;

export async function accountsPart(visit: PageVisit): Promise<Html> {
  const search = visit.queryText('email').slice(0, 254);
  const query = { before: visit.queryText('before') || undefined, after: visit.queryText('after') || undefined };
  const found = await visit.api.list('/users', { query: { limit: perPage, email: search, ...query } });
  return html`<section aria-labelledby="accounts-title" id="accounts">
    <h2 id="accounts-title">Accounts</h2>
    <div class="beside">
      <div>
        <form method="get" action="${visit.path}#accounts" role="search" class="inline">
          <div class="field">
            <label for="search">Search</label>
            <input id="search" name="email" type="search" value="${search}" maxlength="254" autocomplete="off" />
          </div>
          <button>Search</button>
        </form>
        ${refusal(visit)}
        ${
          found.items.length === 0
            ? html`<p class="aside">No address has that in it.</p>`
            : table(
                'Accounts',
                ['Account', 'Standing', 'Since', 'Actions'],
                found.items.map((one) => row(visit, one)),
              )
        }
        ${pagination(found, { path: visit.path, query: { email: search } })}
      </div>
      ${invitation(visit)}
    </div>
  </section>`;
}

/** Shown above the rows, because a row's cell has no room. */
function refusal({ refused }: PageVisit): Html | undefined {
  if (!refused || refused.action === 'invite' || refused.message === undefined) return undefined;
  return html`<p class="notice bad" role="alert">${refused.message}</p>`;
}

function row(visit: PageVisit, account: User): Html {
  const { id_str: id, email, kind, operator, suspended, billing, has_password: hasPassword } = account;
  const emailId = `account-${id}`;
  const button = (action: string, name: string): Html =>
    pageForm({ ...visit, refused: undefined }, action, { user_id: id }).wrap(html``, {
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
      <div class="actions end">
        ${!hasPassword && button('link', 'New link')}
        ${suspended ? button('resume', 'Resume') : account.id !== visit.person.id && button('suspend', 'Suspend')}
      </div>
    </td>
  </tr>`;
}

function invitation(visit: PageVisit): Html {
  const form = pageForm(visit, 'invite');
  return html`<section aria-labelledby="invite-title">
    <h3 id="invite-title">Invite somebody</h3>
    ${form.wrap(
      html`${form.text('email', 'E-mail', { type: 'email', required: true, wrong: 'This is no e-mail address.' })}
      ${form.select('kind', 'Kind', [
        ['user', 'Owns projects'],
        ['collaborator', 'Works on projects of others'],
      ])}`,
      { button: 'Invite', isCard: true, label: 'Invite somebody' },
    )}
  </section>`;
}
