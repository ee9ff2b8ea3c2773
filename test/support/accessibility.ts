import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { BrowserContextOptions, Page } from 'playwright-core';

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];

interface Violation {
  id: string;
  nodes: { html: string }[];
}

/** The pages keep the rules of WCAG 2.2 AA, wide in light and on a phone in dark, and none is wider than the screen. */
export async function assertAccessible(
  open: (options: BrowserContextOptions) => Promise<Page>,
  addresses: readonly string[],
): Promise<void> {
  const found: string[] = [];
  for (const [colorScheme, width] of [
    ['light', 1280],
    ['dark', 360],
  ] as const) {
    const page = await open({ colorScheme, viewport: { width, height: 800 }, bypassCSP: true });
    for (const address of addresses) {
      const answer = await page.goto(address);
      assert.equal(answer?.status(), 200, address);
      for (const one of await violationsOn(page)) found.push(`${colorScheme} ${address}: ${one}`);
      const tooWide = Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'));
      if (tooWide > 0) found.push(`${address} is ${tooWide} px too wide at ${width}`);
    }
  }
  assert.deepEqual(found, []);
}

/** The page needs a context with `bypassCSP`. */
export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  return page.evaluate(async (values) => {
    const axe = Reflect.get(globalThis, 'axe') as { run(o: object): Promise<{ violations: Violation[] }> };
    const { violations } = await axe.run({ runOnly: { type: 'tag', values } });
    return violations.map(({ id, nodes }) => `${id} ${nodes.map(({ html }) => html).join(' | ')}`);
  }, rules);
}
