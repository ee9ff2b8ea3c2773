/** Makes the pictures of the documentation: a dashboard, a running build, and a log. Run by `scripts/screenshots`. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { fillInSignIn, TestBrowser } from '../test/support/browser.ts';
import { startInstallation, type Installation, type Project } from '../test/support/installation.ts';

const folder = join(import.meta.dirname, '..', 'docs', 'images');

const people = [
  { name: 'Ada Moreau', email: 'ada@example.org' },
  { name: 'Joris Prins', email: 'joris@example.org' },
  { name: 'Lin Okafor', email: 'lin@example.org' },
];
/** The commits of each repository. Tests fail on a commit with a leading `!`. */
const history: Record<string, string[]> = {
  'harbour-web': ['Show the berths on a map', 'Remember the chosen harbour', 'Print the harbour dues'],
  'lock-control': [
    'Close the gates before the valves open',
    '! Open both gates at low water',
    'Ask twice before a gate opens',
  ],
  'pump-firmware': ['Start the second pump at 80 %', 'Count the hours of each pump', '! Read the level in millimetres'],
  'river-gauge': [
    'Read the gauge every minute',
    'Keep readings for ten years',
    '! Average over the hour',
    'Leave out readings below zero',
  ],
  'tide-tables': ['Take the tables of next year', 'Tell high water in local time'],
};

/** A typical log: groups, colours, a failure. */
const unitTests = `
echo '::group::npm ci'
for name in ajv express gauge-reader level-math pino pg undici zod; do echo "added $name"; done
echo 'added 214 packages in 3 s'
echo '::endgroup::'
echo '--- unit tests'
say() { printf '\\033[32m✔\\033[0m %s \\033[2m(%s ms)\\033[0m\\n' "$1" "$2"; sleep 0.05; }
say 'reads the gauge' 12
say 'keeps what it has read' 31
say 'leaves out readings below zero' 4
for station in Aare Birs Doubs Emme Inn Limmat Linth Lorze Reuss Rhine Rhone Sihl Thur Ticino; do say "averages $station over the hour" 9; done
if test -e failing; then
  printf '\\033[31m✖\\033[0m averages the readings of an hour \\033[2m(7 ms)\\033[0m\\n'
  printf '    \\033[31mAssertionError: expected 412, got 411.83\\033[0m\\n'
  echo '        at average (src/average.ts:41:11)'
  printf '\\033[1m1 test failed\\033[0m, 17 passed\\n'
  exit 1
fi
printf '\\033[1m17 tests passed\\033[0m\\n'`;

const cleanUps: (() => void | Promise<void>)[] = [];
const place = {
  kind: 'sqlite' as const,
  emptyUrl: () => Promise.reject(new Error('SQLite makes its own')),
  afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp),
};

async function make(installation: Installation, name: string): Promise<Project> {
  const project = await installation.project(name);
  await installation.api().post(`${project.path}/suites`, { name: 'unit tests', command: unitTests });
  await installation.api().post(`${project.path}/suites`, { name: 'lint', command: 'echo 48 files, nothing wrong' });
  for (const [at, line] of (history[name] ?? []).entries()) {
    const author = people[(at + name.length) % people.length];
    const files = { failing: line.startsWith('!') ? 'yes' : null };
    await project.repository.commit({ message: line.replace(/^! /, ''), files, ...(author && { author }) });
    await project.build('main');
  }
  return project;
}

async function shoot(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.evaluate('scrollTo(0, 0)');
  await page.screenshot({ path: join(folder, `${name}.png`), animations: 'disabled' });
}

mkdirSync(folder, { recursive: true });
try {
  const installation = await startInstallation(place);
  const projects = new Map<string, Project>();
  for (const name of Object.keys(history)) projects.set(name, await make(installation, name));
  const project = projects.get('river-gauge');
  if (!project) throw new Error('there is no such project');
  const url = (path: string): string => `${installation.address()}/ui${path}`;

  const page = await new TestBrowser(place).open({ viewport: { width: 1200, height: 720 }, colorScheme: 'light' });
  await page.goto(url('/'));
  const [, password = ''] = /password\s+(\S+)/.exec(installation.serving().output) ?? [];
  await fillInSignIn(page, { email: 'admin@localhost', password });
  await page.getByRole('button', { name: 'Sign out' }).waitFor();

  const commits = await project.commits();
  for (const commit of commits) {
    const failed = (await project.builds(commit)).find(({ build_state: state }) => state === 'failed');
    if (!failed) continue;
    await page.goto(url(`${project.path}/builds/${failed.id_str}`));
    await page.locator('.log-loaded').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('✖|Error|failed');
    await page.keyboard.press('Enter');
    await page.getByText('in all').waitFor();
    await shoot(page, 'log');
  }

  const slow = `echo 'node 24.21.0, 8 workers'; n=0; while :; do n=$((n + 1)); echo "replayed $n days of readings"; sleep 0.2; done`;
  await installation.api().post(`${project.path}/suites`, { name: 'replay of a year', command: slow });
  await installation
    .api()
    .post(`${project.path}/suites`, { name: 'package', command: "echo 'river-gauge_4.2.0_all.deb, 1.8 MB'" });
  await project.repository.commit({ message: 'Replay the flood of last May', ...(people[2] && { author: people[2] }) });
  const request = await project.ask('main');
  await page.goto(url(`${project.path}/requests/${request.id_str}`));
  for (const name of ['unit tests', 'lint', 'package']) {
    await page.locator('.build', { hasText: name }).locator('.state', { hasText: 'passed' }).waitFor();
  }
  await page.getByText(/replayed [0-9]{2,} days/).waitFor();
  await shoot(page, 'build');
  await page.goto(url('/'));
  await page.locator('.state', { hasText: 'building' }).waitFor();
  await shoot(page, 'dashboard');
  await project.cancel(request);
  await project.end(request);
} finally {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
}
