import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import type { TestDatabase } from './databases.ts';

/** The machine's Chromium. */
export function chromiumPath(): string {
  const places = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'chromium'));
  return places.find(existsSync) ?? 'chromium';
}

/** Chromium's own sandbox needs privileges that are not available everywhere. */
async function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumPath(), args: ['--no-sandbox'] });
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
    context.setDefaultTimeout(20_000);
    return context.newPage();
  }
}

/** Fills in and sends the sign-in form. */
export async function fillInSignIn(
  page: Page,
  { email, password }: { email: string; password: string },
): Promise<void> {
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}
