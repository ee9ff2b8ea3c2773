import type { InvitedUser, Operations, Runner } from '../../shared/records/installation.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import { timeSpanText } from './browser/time-words.ts';
import { ago } from './moments.ts';
import { accountsPart } from './operations-accounts.ts';
import { page, type PageVisit } from './pages.ts';
import { emptyGroup } from '../../shared/records/raw.ts';
import { copyable, empty, fact, section, table } from './parts.ts';
import { shownOnce } from './resource-pages.ts';
import { notFound, type PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

/** Pages only for operators. Other users get the page for a missing address. */

async function show(visit: PageVisit): Promise<Page> {
  const now = await visit.api.get('/operations');
  const runners = await visit.api.get('/runners');
  return {
    title: 'Operations',
    live: ['clock'],
    main: html`<h1>Operations</h1>
      <div class="tiles" id="operations" data-live>${queuePart(now)} ${disksPart(now)} ${versionsPart(now)}</div>
      <div id="runners" data-live>${runnersPart(runners)}</div>
      <div id="failing" data-live>${deliveriesPart(now)}</div>
      ${await accountsPart(visit)}`,
  };
}

function queuePart({ queue }: Operations): Html {
  return section(
    'queue',
    'Queue',
    html`<dl class="facts">
        ${figure('Waiting', queue.waiting)} ${figure('Running', queue.running)} ${figure('Oldest', waited(queue))}
      </dl>
      ${
        queue.accounts.length > 0 &&
        table(
          'Queue by account',
          ['Account', 'Waiting', 'Running', 'Oldest'],
          queue.accounts.map(
            (account) =>
              html`<tr id="queue-${account.id_str}">
                <td>${account.email}</td>
                <td>${account.waiting}</td>
                <td>${account.running}</td>
                <td class="nowrap">${waited(account)}</td>
              </tr>`,
          ),
          { isOfFigures: true },
        )
      }`,
    { isCard: true },
  );
}

function figure(name: string, value: number | string): Html {
  return fact(name, html`<span class="figure">${value}</span>`);
}

function waited({ waiting, oldest_seconds: seconds }: Pick<Operations['queue'], 'waiting' | 'oldest_seconds'>): string {
  return waiting === 0 ? '–' : timeSpanText(seconds * 1000);
}

function disksPart({ disks }: Operations): Html {
  return section(
    'disk',
    'Disk',
    html`${disks.map(({ folder, size, free, reserve }) => {
        const used = size - free;
        return html`<p class="disk">
          <code>${folder}</code><br />
          <meter
            aria-label="Used of the disk of ${folder}"
            min="0"
            max="${size}"
            high="${Math.max(0, size - 2 * reserve)}"
            optimum="0"
            value="${used}"
          ></meter>
          ${formatBytes(free)} of ${formatBytes(size)} free, ${formatBytes(reserve)} kept in reserve
        </p>`;
      })}
      <p class="aside">Of the server that answered; other servers and runners have their own.</p>`,
    { isCard: true },
  );
}

function versionsPart({ versions }: Operations): Html {
  return section(
    'versions',
    'Versions',
    html`<dl>
      ${fact('Headrace', versions.headrace)} ${fact('Node', versions.node)} ${fact('Database', versions.database)}
      ${fact('Newest migration', versions.migration)}
    </dl>`,
    { isCard: true },
  );
}

function runnersPart(runners: Runner[]): Html {
  return section(
    'runners',
    'Runners',
    html`${table(
      'List of runners',
      ['Name', 'State', 'Works on', 'Last seen', 'For', 'Version'],
      runners.map(runnerRow),
      {
        isOfFigures: true,
        none: empty('No runners', 'Builds need a runner. A server starts its own unless configured not to.'),
      },
    )}`,
  );
}

function runnerRow(runner: Runner): Html {
  const { name, kind, state, draining, trouble, version, last_seen_at: seen, accounts, work } = runner;
  return html`<tr>
    <td>${name}<br /><span class="aside">${kind}</span></td>
    <td>
      ${stateBadge(state)} ${draining && html`<p class="aside">is drained: takes no more work</p>`}
      ${trouble !== '' && html`<p class="mistake">${trouble}</p>`}
    </td>
    <td>
      ${
        work.length === 0
          ? '–'
          : work.map(
              ({ kind: what, id_str: id, account }) =>
                html`<p class="attempt">${what.replaceAll('_', ' ')} ${id} of ${account}</p>`,
            )
      }
    </td>
    <td>${seen === null ? 'never' : ago(seen)}</td>
    <td>${accounts.length === 0 ? 'every account' : accounts.join(', ')}</td>
    <td>${version === '' ? '–' : version}</td>
  </tr>`;
}

function deliveriesPart({ failing_deliveries: failing }: Operations): Html {
  return section(
    'failing',
    'Deliveries that fail',
    html`${
      failing.length === 0
        ? html`<p class="aside">None: every receiver took what was sent to it last.</p>`
        : table(
            'List of deliveries that fail',
            ['Receiver', 'Account', 'Tries', 'What it said last', 'Next try'],
            failing.map(
              (one) =>
                html`<tr id="failing-${one.notification_id_str}">
                  <td><code>${one.host}</code></td>
                  <td>${one.account}</td>
                  <td>${one.tries}</td>
                  <td>${one.status === null ? one.error : `status ${one.status}`}</td>
                  <td>${ago(one.next_try_at)}</td>
                </tr>`,
            ),
            { isOfFigures: true },
          )
    }`,
  );
}

/** This page shows the link once. It cannot be shown again. */
function linkPage({ email, password_path: path }: InvitedUser, { origin }: PageVisit): Page {
  const link = section(
    'link',
    `Link for ${email}`,
    html`<p>
        With it they set their password, once, within a week. Headrace sends no mail: hand it on yourself, to nobody
        else.
      </p>
      ${copyable(`${origin}${path}`, 'link')}`,
    { isCard: true },
  );
  return shownOnce({ title: 'Invited', what: 'link', secrets: link, next: '/ui/operations' });
}

const all = page({
  path: '/ui/operations',
  show,
  actions: {
    invite: { route: 'POST /users', done: linkPage },
    link: {
      route: 'POST /users/:user_id/password_link',
      done: linkPage,
      refusals: {
        already_exists: 'They have a password already.',
        is_reserved:
          'This account has access to a project, and everybody with the link would see that project. On the machine of the server, headrace admin user password-link makes one.',
      },
    },
    suspend: {
      route: 'POST /users/:user_id/suspend',
      done: 'suspended',
      refusals: { is_reserved: 'This is your own account: you could not sign in any more.' },
    },
    resume: { route: 'POST /users/:user_id/resume', done: 'resumed' },
    look: { route: 'POST /runners/look', fields: emptyGroup, done: 'looking' },
  },
});

export const routes: PageRoute[] = all.map((place) => ({
  ...place,
  visit: async (visit) => (visit.visitor.person?.operator === 0 ? notFound : place.visit(visit)),
}));
