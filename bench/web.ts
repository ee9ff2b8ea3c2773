import { chromium, type Browser, type CDPSession, type Page } from 'playwright-core';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { brotliCompressSync } from 'node:zlib';
import { chromiumPath, fillInSignIn } from '../test/support/browser.ts';
import { dashboardFigures } from './support/dashboard.ts';
import { untilIdle } from './support/idle.ts';
import { openLighthouse, type Marks } from './support/lighthouse.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call, type Service } from './support/servers.ts';

const size = 100 * 1024 * 1024;
const words = 'a line of a log, about as long as lines of logs are: compiled something, tested something';
const lines = Math.floor(size / (words.length + 1));
const rare = 'needle in the haystack';
const half = `yes '${words}' | head -n ${lines / 2}`;
/** 100 MB. The searched word is in the middle and at the end. */
const long = `${half} ; echo '${rare}' ; ${half} ; echo '${rare}'`;
const failure = 'error: the gate does not close';
/** Another 100 MB, of a build that fails. */
const failing = `${half} ; echo '${failure}' ; ${half} ; exit 1`;
const perBurst = 1000;
const bursts = 20;
const quick = `n=0; for i in $(seq ${bursts}); do seq -f 'line %.0f' $((n + 1)) $((n + ${perBurst})); n=$((n + ${perBurst})); sleep 0.05; done; sleep 3`;

interface Lines {
  total: number;
  lines: { number: number; text: string }[];
}
interface Matches {
  matches: { number: number }[];
  next: number | null;
}

/** Logs in the browser and by line: a log of 100 MB, and a log with many new lines a second. */
export const web: Benchmark = {
  name: 'web',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const project = await startProject();
    stack.defer(() => project.stop());
    await project.command(long);
    const build = await project.build();
    await project.end(build);
    await project.command(failing);
    const failed = await project.build();
    await project.end(failed);
    await untilIdle(project.service.pid); // the server packs the log now
    const browser = await chromium.launch({ executablePath: chromiumPath(), args: ['--no-sandbox'] });
    stack.defer(() => browser.close());
    return [
      ...(await overTheApi(project, build)),
      ...(await inTheBrowser(project, build, failed, browser)),
      ...(await quickLines(project, browser)),
      ...(await pageMarks(project, build)),
      ...(await dashboardFigures(databases)),
    ];
  },
};

async function timed(times: number, work: (turn: number) => Promise<unknown>): Promise<number[]> {
  const taken: number[] = [];
  for (let turn = 0; turn < times; turn += 1) {
    const startedAt = performance.now();
    await work(turn);
    taken.push(performance.now() - startedAt);
  }
  return taken;
}

function told(values: number[]): string {
  return `median of ${values.length}, at most ${round(Math.max(...values))} ms`;
}

async function overTheApi({ service }: BenchProject, build: string): Promise<Figure[]> {
  const { total } = await call<Lines>(service, `${build}/log/lines?limit=1`);
  const any = await timed(21, (turn) => {
    const from = 1 + ((turn * 7919 * 104_729) % total);
    return call<Lines>(service, `${build}/log/lines?from=${from}&limit=100`);
  });
  const hit = await timed(11, () => call<Matches>(service, `${build}/log/search?q=haystack&limit=1`));
  const all = await timed(5, async () => {
    let found = 0;
    for (let from: number | null = 1; from !== null;) {
      const { matches, next }: Matches = await call(
        service,
        `${build}/log/search?q=${encodeURIComponent('needle.*hay')}&from=${from}`,
      );
      found += matches.length;
      from = next;
    }
    if (found !== 2) throw new Error(`the word was found ${found} times`);
  });
  return [
    { what: 'any lines of 100 MB, ms', value: median(any), limit: { atMost: 300 }, from: told(any) },
    {
      what: 'first hit of a search, which is in the middle, ms',
      value: median(hit),
      limit: { atMost: 500 },
      from: told(hit),
    },
    { what: 'all hits of a rare word, ms', value: median(all), limit: { atMost: 3000 }, from: told(all) },
  ];
}

async function signedIn({ service }: BenchProject, browser: Browser): Promise<Page> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await enter(service, page);
  return page;
}

async function enter(service: Service, page: Page): Promise<void> {
  const password = /password\s+(\S+)/i.exec(service.output)?.[1] ?? '';
  await page.goto(`${service.url}/ui/`);
  await fillInSignIn(page, { email: 'admin@localhost', password });
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
}

async function inTheBrowser(project: BenchProject, build: string, failed: string, browser: Browser): Promise<Figure[]> {
  const page = await signedIn(project, browser);
  const address = `${project.service.url}/ui${build}`;
  const scripts = new Map<string, number>();
  page.on('response', (response) => {
    if (!response.url().endsWith('.js')) return;
    void response.body().then(
      (body) => scripts.set(response.url(), brotliCompressSync(body).length),
      () => {}, // the page was left meanwhile: it is opened several times
    );
  });
  const opened = await timed(7, async () => {
    await page.goto(address);
    await page.locator('.log-line', { hasText: rare }).last().waitFor();
  });
  const atFailure = await timed(7, async () => {
    await page.goto(`${project.service.url}/ui${failed}`);
    await page.locator('.log-failure', { hasText: failure }).last().waitFor();
  });
  await page.goto(address);
  await page.locator('.log-loaded').waitFor();
  const jumped = await timed(11, async (turn) => {
    const line = 1 + ((turn * 7919 * 104_729) % lines);
    await page.evaluate(`location.hash = '#L${line}'`);
    await page.locator(`.log-view [data-line="${line}"]`).waitFor();
  });
  const own = await page.context().newCDPSession(page);
  await own.send('HeapProfiler.collectGarbage'); // frees the memory of earlier pages
  const memory = await tabMegabytes(await browser.newBrowserCDPSession());
  const kilobytes = [...scripts.values()].reduce((sum, one) => sum + one, 0) / 1024;
  await page.context().close();
  return [
    {
      what: 'build page of 100 MB of log, to its last line, ms',
      value: median(opened),
      limit: { atMost: 1000 },
      from: told(opened),
    },
    {
      what: 'page of a failed build of 100 MB, to the line that reports the failure, share of that time',
      value: median(atFailure) / median(opened),
      limit: { atMost: 1.2 },
      from: `${told(atFailure)}, ${round(median(atFailure))} ms`,
    },
    { what: 'any line of it on the screen, ms', value: median(jumped), limit: { atMost: 300 }, from: told(jumped) },
    {
      what: 'memory of the tab, MB',
      value: memory,
      limit: { atMost: 150 },
      from: 'what the largest renderer has for itself',
    },
    {
      what: 'scripts of the build page, kB',
      value: kilobytes,
      limit: { atMost: 30 },
      from: `${scripts.size} files, compressed`,
    },
  ];
}

/** The memory of the browser's largest renderer. Of shared memory, only its share counts. */
async function tabMegabytes(session: CDPSession): Promise<number> {
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const sizes = processInfo
    .filter(({ type }) => type === 'renderer')
    .map(({ id }) => Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024);
  return Math.max(...sizes);
}

async function quickLines(project: BenchProject, browser: Browser): Promise<Figure[]> {
  const page = await signedIn(project, browser);
  await project.command(quick);
  // Every page of this context counts its long tasks from the start.
  await page.addInitScript(`
    window.longest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({ type: 'longtask', buffered: false });`);
  const build = await project.build();
  await page.goto(`${project.service.url}/ui${build}`);
  await page.evaluate('window.longest = 0');
  const total = perBurst * bursts;
  await page.locator(`.log-view [data-line="${total}"]`).waitFor({ timeout: 60_000 });
  await pause(500);
  const longest = Number(await page.evaluate('window.longest'));
  await project.end(build);
  let wrong = 0;
  for (let number = 1; number <= total; number += 997) {
    await page.evaluate(`location.hash = '#L${number}'`);
    const line = page.locator(`.log-view [data-line="${number}"]`);
    await line.waitFor();
    if ((await line.count()) !== 1 || (await line.locator('.log-text').textContent()) !== `line ${number}`) wrong += 1;
  }
  await page.context().close();
  return [
    {
      what: `longest task while ${total} lines came in a second, ms`,
      value: longest,
      limit: { atMost: 50 },
      from: 'long tasks of the page; 0 for none',
    },
    { what: 'lines lost or doubled meanwhile', value: wrong, limit: { atMost: 0 }, from: 'every 997th looked at' },
  ];
}

/** Lighthouse's marks for the most used pages. The build is the one with the long log. */
async function pageMarks({ service, path }: BenchProject, build: string): Promise<Figure[]> {
  const lighthouse = await openLighthouse((page) => enter(service, page));
  const figures: Figure[] = [];
  try {
    const pages = { dashboard: '/ui/', project: `/ui${path}`, build: `/ui${build}` };
    for (const [name, address] of Object.entries(pages)) {
      const marks: Marks[] = [];
      for (let turn = 0; turn < 3; turn += 1) marks.push(await lighthouse.measure(`${service.url}${address}`));
      const what = `Lighthouse of the ${name} page`;
      const from = `median of ${marks.length}; lost by ${marks[0]?.lost.join(', ') || 'nothing'}`;
      const performance = median(marks.map((one) => one.performance));
      figures.push({ what: `${what}, performance`, value: performance, limit: { atLeast: 95 }, from });
      const accessibility = Math.min(...marks.map((one) => one.accessibility));
      figures.push({
        what: `${what}, accessibility`,
        value: accessibility,
        limit: { atLeast: 100 },
        from: 'the least',
      });
    }
  } finally {
    await lighthouse.close();
  }
  return figures;
}
