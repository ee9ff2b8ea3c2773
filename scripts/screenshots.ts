/** Makes the pictures of the documentation: a dashboard, a running build, and a log. Run by `scripts/screenshots`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { removeTree } from '../src/shared/lib/remove-tree.ts';
import { fillInSignIn, TestBrowser } from '../test/support/browser.ts';

const pictures = join(import.meta.dirname, '..', 'docs', 'images');
/** A folder that `scripts/fill.ts` has filled saves the minutes that filling takes. */
const [filled] = process.argv.slice(2);

async function shoot(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  await page.evaluate('scrollTo(0, 0)');
  await page.screenshot({ path: join(pictures, `${name}.png`), animations: 'disabled' });
}

const cleanUps: (() => void | Promise<void>)[] = [];
mkdirSync(pictures, { recursive: true });
try {
  const folder = filled ?? mkdtempSync(join(tmpdir(), 'headrace-pictures-'));
  if (filled === undefined) cleanUps.push(() => removeTree(folder));
  const args = [join(import.meta.dirname, 'fill.ts'), folder, '--serve', '0'];
  const server = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(server, 'exit');
  cleanUps.push(async () => {
    server.kill();
    await exited;
  });
  let said = '';
  const address = /^(https:\S+): (\S+), password: (.+)$/m;
  for await (const chunk of server.stdout) {
    said += String(chunk);
    if (address.test(said)) break;
  }
  const [, url = '', email = '', password = ''] = address.exec(said) ?? [];
  const place = { afterwards: (cleanUp: () => void | Promise<void>) => void cleanUps.push(cleanUp) };
  const page = await new TestBrowser(place).open({ viewport: { width: 1200, height: 720 }, colorScheme: 'light' });
  await page.goto(`${url}/ui/`);
  await fillInSignIn(page, { email, password });
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  await shoot(page, 'dashboard');

  await page.getByRole('link', { name: 'river-gauge' }).first().click();
  await page.locator('.commit').first().waitFor();
  const project = page.url();
  await page.locator('.commit-when a').first().click();
  await page.locator('.build').first().waitFor();
  await shoot(page, 'build');

  await page.goto(project);
  await page.locator('.commit-marks a.bad').first().click();
  await page.locator('.log-loaded').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('✖|Error|failed');
  await page.keyboard.press('Enter');
  await page.getByText('in all').waitFor();
  await shoot(page, 'log');
} finally {
  for (const cleanUp of cleanUps.reverse()) await cleanUp();
}
