import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import type { TestDatabase } from './databases.ts';
import { longestWait } from './pauses.ts';

const program = 'chromium-headless-shell';

/** The machine's Chromium, without windows, menus and extensions: it takes a third of the processor time. */
export function chromiumPath(): string {
  const places = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, program));
  return places.find(existsSync) ?? program;
}

/** Chromium's own sandbox needs privileges that are not available everywhere. */
async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumPath(), args: ['--no-sandbox'], timeout: longestWait });
}

/** A browser for the tests of a block. Each page has its own profile. */
export class TestBrowser {
  #browser: Promise<Browser> | undefined;

  constructor({ afterwards }: Pick<TestDatabase, 'afterwards'>) {
    afterwards(async () => (await this.#browser)?.close());
  }

  /** The certificate is self-signed. */
  async open(options: BrowserContextOptions = {}): Promise<Page> {
    this.#browser ??= launch();
    const context = await (await this.#browser).newContext({ ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(longestWait);
    return context.newPage();
  }

  /** Opens a page and signs in. An error in a script of the page fails the test. */
  async signIn(address: string, credentials: Password, options: BrowserContextOptions = {}): Promise<Page> {
    const page = await this.open(options);
    page.on('pageerror', (error) => assert.fail(error));
    await page.goto(`${address}/ui/account`);
    await fillInSignIn(page, credentials);
    await page.waitForURL('**/ui/account');
    return page;
  }

  /** Opens a page and signs in. The list grows with each error and warning that the browser reports for the page. */
  async signInNoting(address: string, credentials: Password): Promise<{ page: Page; complaints: string[] }> {
    const page = await this.open({ viewport: { width: 1280, height: 800 } });
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
    });
    page.on('pageerror', (error) => complaints.push(error.message));
    await page.goto(`${address}/ui/`);
    await fillInSignIn(page, credentials);
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    return { page, complaints };
  }
}

interface Password {
  email: string;
  password: string;
}

/** Fills in and sends the sign-in form. */
export async function fillInSignIn(page: Page, { email, password }: Password): Promise<void> {
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}
