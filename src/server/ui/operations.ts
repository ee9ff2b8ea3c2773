import type { InvitedUser, Load, Operations, Runner } from '../../shared/records/installation.ts';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import { timeSpanText } from './browser/time-words.ts';
import { ago, duration } from './moments.ts';
import { accountsPart } from './operations-accounts.ts';
import { auditRoutes, auditTable } from './operations-audit.ts';
import { page, type PageVisit } from './pages.ts';
import { emptyGroup } from '../../shared/records/raw.ts';
import { copyable, counted, empty, fact, section, table } from './parts.ts';
import { areaPlot, plotPart, shareBar } from './plots.ts';
import { shownOnce } from './resource-pages.ts';
import { notFound, type PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

type Work = Runner['work'][number];

const newestEntries = 10;

/** Pages only for operators. Other users get the page for a missing address. */

async function show(visit: PageVisit): Promise<Page> {
  const now = await visit.api.get('/operations');
  const runners = await visit.api.get('/runners');
  const load = await visit.api.get('/operations/load');
  const audit = await visit.api.list('/audit', { query: { limit: newestEntries } });
  return {
    title: 'Operations',
    live: ['clock'],
    main: html`<h1>Operations</h1>
      <div class="tiles" id="operations" data-live>${queuePart(now)} ${loadPart(load)}</div>
      <div id="runners" data-live>${runnersPart(runners)}</div>
      <div id="failing" data-live>${deliveriesPart(now)}</div>
      <div class="tiles" id="machine" data-live>${disksPart(now)} ${versionsPart(now)}</div>
      ${await accountsPart(visit)}
      <section id="audit" aria-labelledby="audit-title" data-live>
        <h2 id="audit-title">Audit log</h2>
        ${auditTable(audit.items)}
        <p><a href="/ui/operations/audit">All entries</a></p>
      </section>`,
  };
}

function queuePart({ queue }: Operations): Html {
  return section(
    'queue',
    'Queue',
    html`<dl class="facts">
        ${figure('Waiting', queue.waiting)} ${figure('Running', queue.running)} ${figure('Oldest waits', waited(queue))}
      </dl>
      ${
        queue.accounts.length > 0 &&
        table(
          'Queue by account',
          ['Account', 'Waiting', 'Running', 'Oldest waits'],
          queue.accounts.map(
            (account) =>
              html`<tr id="queue-${account.id_str}">
                <td>${account.email}</td>
                <td class="nowrap">${account.waiting} <span class="aside">waiting</span></td>
                <td class="nowrap">${account.running} <span class="aside">running</span></td>
                <td class="nowrap">
                  ${account.waiting > 0 && html`<span class="aside">oldest</span> ${waited(account)}`}
                </td>
              </tr>`,
          ),
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
          ${formatBytes(free)} of ${formatBytes(size)} free, ${formatBytes(reserve)} reserved
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

function loadPart({ since, step_seconds: step, running, waiting }: Load): Html {
  const timeAt = (place: number): string => {
    const at = new Date(Date.parse(since) + place * step * 1000).toISOString();
    return `${at.slice(0, 10)} ${at.slice(11, 16)}`;
  };
  const hours = 3600 / step;
  // A row for each hour, the newest first. The plot has each step.
  const rows = Array.from({ length: Math.ceil(running.length / hours) }, (_, hour) => {
    const most = (of: number[]): number => Math.max(...of.slice(hour * hours, (hour + 1) * hours));
    return html`<tr>
      <td class="nowrap">${timeAt(hour * hours)}</td>
      <td>${most(running)}</td>
      <td>${most(waiting)}</td>
    </tr>`;
  }).toReversed();
  const [mostRunning, mostWaiting] = [Math.max(0, ...running), Math.max(0, ...waiting)];
  return plotPart({
    title: 'Last 24 hours',
    figure: `${mostRunning} running at most`,
    about: html`<span class="key running">running</span> <span class="key waiting">waiting for a runner</span>, at most
      ${mostWaiting}`,
    image: areaPlot(
      [
        { name: 'running', values: running },
        { name: 'waiting', values: waiting },
      ],
      { label: `Builds in the last 24 hours: at most ${mostRunning} ran and ${mostWaiting} waited at once` },
    ),
    table: table('Builds by hour', ['Hour (UTC)', 'Running', 'Waiting'], rows, { isOfFigures: true }),
  });
}

function runnersPart(runners: Runner[]): Html {
  return section(
    'runners',
    'Runners',
    html`${table(
      'List of runners',
      ['Name', 'State', 'Slots', 'Works on', 'Last seen', 'For', 'Version'],
      runners.map(runnerRow),
      {
        none: empty('No runners', 'Builds need a runner. A server starts its own unless configured not to.'),
      },
    )}`,
  );
}

function runnerRow(runner: Runner): Html {
  const { name, kind, state, draining, trouble, version, last_seen_at: seen, accounts, tags, work } = runner;
  return html`<tr>
    <td>${name}<br /><span class="aside">${kind}${tags.length > 0 && `, ${tags.join(', ')}`}</span></td>
    <td>
      ${stateBadge(state)} ${draining && html`<p class="aside">is drained: takes no more work</p>`}
      ${trouble !== '' && html`<p class="mistake">${trouble}</p>`}
    </td>
    <td>${slots(runner)}</td>
    <td>${work.length === 0 ? '–' : work.map(workLine)}</td>
    <td>${seen === null ? 'never' : ago(seen)}</td>
    <td>${accounts.length === 0 ? 'every account' : accounts.join(', ')}</td>
    <td>${version === '' ? '–' : version}</td>
  </tr>`;
}

function slots({ slots: all, busy_slots: busy }: Runner): Html | string {
  if (all === 0) return busy === 0 ? '–' : String(busy);
  return html`<span class="nowrap">${busy} of ${all}</span> ${shareBar(busy, all)}`;
}

const kinds: Record<string, string> = {
  run_suite: '',
  fetch_commit: 'fetch of ',
  push_deploy: 'deploy to ',
  compile_dependency: 'compile of ',
  check_connection: 'connection check',
  pack_files: 'files of ',
  check_inputs: 'inputs of ',
};

function workLine({ kind, id_str: id, name, project_name: project, account, started_at: started }: Work): Html {
  const what = `${kinds[kind] ?? `${kind.replaceAll('_', ' ')} `}${name}`;
  return html`<p class="attempt" title="${kind.replaceAll('_', ' ')} ${id}">
    ${project} <strong>${what}</strong>
    <span class="aside">${started !== null && html`for ${duration(started, null)}, `}${account}</span>
  </p>`;
}

function deliveriesPart({ failing_deliveries: failing }: Operations): Html {
  return section(
    'failing',
    'Deliveries that fail',
    html`${
      failing.length === 0
        ? html`<p class="aside">None: every receiver accepted its last delivery.</p>`
        : table(
            'List of deliveries that fail',
            ['Receiver', 'Project', 'Account', 'Tries', 'What it said last', 'Next try'],
            failing.map(
              (one) =>
                html`<tr id="failing-${one.notification_id_str}">
                  <td><code>${one.host}</code></td>
                  <td>${one.project_name}</td>
                  <td>${one.account}</td>
                  <td>${counted(one.tries, 'try', 'tries')}</td>
                  <td>${one.status === null ? one.error : `status ${one.status}`}</td>
                  <td>${ago(one.next_try_at)}</td>
                </tr>`,
            ),
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
        It sets their password. It works once, within a week. Send it only to that user: Headrace did not send it.
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
          'This account has access to a project, and anyone with the link would see that project. On the machine of the server, headrace admin user password-link makes one.',
      },
    },
    suspend: {
      route: 'POST /users/:user_id/suspend',
      done: 'suspended',
      refusals: { is_reserved: 'This is your own account: you could no longer sign in.' },
    },
    resume: { route: 'POST /users/:user_id/resume', done: 'resumed' },
    look: { route: 'POST /runners/look', fields: emptyGroup, done: 'looking' },
  },
});

export const routes: PageRoute[] = [...all, ...auditRoutes].map((place) => ({
  ...place,
  visit: async (visit) => (visit.visitor.person?.operator === 0 ? notFound : place.visit(visit)),
}));
