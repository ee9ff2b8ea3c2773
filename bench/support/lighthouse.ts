import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium, type Page } from 'playwright-core';
import { chromiumPath } from '../../test/support/browser.ts';

const folder = join(import.meta.dirname, '..', 'lighthouse');
const lock = join(folder, 'package-lock.json');
/** A copy of the installed lockfile, as in `scripts/setup.sh`. */
const installed = join(folder, 'node_modules', '.installed');

export interface Marks {
  performance: number;
  accessibility: number;
  /** The audits that cost points. */
  lost: string[];
}

interface Report {
  categories: Record<'performance' | 'accessibility', { score: number; auditRefs: { id: string; weight: number }[] }>;
  audits: Record<string, { score: number | null; displayValue?: string }>;
}

/**
 * A browser in which Lighthouse judges pages: the tests' browser, so that nothing is downloaded. `enter` signs a user
 * in. Lighthouse opens its pages in the same profile. By its default, it simulates a phone of medium speed.
 */
export async function openLighthouse(enter: (page: Page) => Promise<void>) {
  install();
  const profile = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: chromiumPath(),
    ignoreHTTPSErrors: true,
    args: ['--no-sandbox', '--ignore-certificate-errors', '--remote-debugging-port=0'],
  });
  await enter(await context.newPage());
  const port = readFileSync(join(profile, 'DevToolsActivePort'), 'utf8').split('\n', 1)[0] ?? '';
  return {
    measure: (url: string): Promise<Marks> => measure(url, port),
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

function install(): void {
  if (existsSync(installed) && readFileSync(installed, 'utf8') === readFileSync(lock, 'utf8')) return;
  execFileSync('npm', ['ci', '--ignore-scripts', '--loglevel=error'], { cwd: folder, stdio: ['ignore', 2, 2] });
  copyFileSync(lock, installed);
}

async function measure(url: string, port: string): Promise<Marks> {
  const args = [
    join(folder, 'node_modules', 'lighthouse', 'cli', 'index.js'),
    url,
    `--port=${port}`,
    '--quiet',
    '--output=json',
    '--only-categories=performance,accessibility',
    '--disable-storage-reset', // the cookie stays
    '--no-enable-error-reporting',
  ];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
  const { categories, audits } = JSON.parse(stdout) as Report;
  const lost = Object.values(categories)
    .flatMap(({ auditRefs }) => auditRefs)
    .filter(({ id, weight }) => weight > 0 && (audits[id]?.score ?? 1) < 1)
    .map(({ id }) => `${id} ${audits[id]?.displayValue ?? ''}`.trim());
  return {
    performance: Math.round(categories.performance.score * 100),
    accessibility: Math.round(categories.accessibility.score * 100),
    lost,
  };
}
