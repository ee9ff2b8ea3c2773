import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';

const axe = readFileSync(join(import.meta.dirname, '../../node_modules/axe-core/axe.min.js'), 'utf8');

/** What axe-core finds wrong by the rules of WCAG 2.2 AA, and by its own. */
export async function violationsOn(page: Page): Promise<string[]> {
  await page.evaluate(axe); // through the debugger: the page's own policy lets nothing in
  const found = await page.evaluate(`axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html).join(' | ')))`);
  return found as string[];
}
