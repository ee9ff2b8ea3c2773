import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { html } from '../../../src/server/ui/html.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

describeServiceOnOne('the site', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  test('is where a browser that asks for the root is sent; programs get the API’s answer', async () => {
    const sent = await service.api.get('/', { headers: browser });
    assert.deepEqual([sent.status, sent.headers.location], [302, '/ui/']);
    const none = { generic: ['api_does_not_exists'] };
    for (const headers of [{}, { accept: '*/*' }, { accept: 'application/json' }]) {
      assertRefused(await service.api.get('/', { headers }), 400, none);
    }
    assertRefused(await service.api.post('/', { headers: browser }), 400, none);
    assert.equal((await service.api.get('/ui', { headers: browser })).headers.location, '/ui/');
  });

  test('takes no session for credentials of the API', async () => {
    const project = await alice.createProject();
    for (const path of ['/whoami', `/projects/${project.id}?callback=f`]) {
      assert.equal((await tab.get(path)).status, 401);
    }
  });

  test('loads its dress from itself, which may be kept for ever', async () => {
    const page = await tab.get('/ui/');
    const assets = Array.from(
      page.text.matchAll(/<(?:link|script) [^>]*(?:href|src)="([^"]+)"/g),
      ([, href = '']) => href,
    );
    assert.equal(assets.length, 3);
    for (const path of assets) {
      assert.match(path, /^\/ui\/[\w-]+\.[0-9a-f]{16}\.(css|svg|js)$/);
      const answer = await service.api.get(path);
      assert.equal(answer.status, 200);
      assert.match(String(answer.headers['cache-control']), /immutable/);
    }
  });

  test('answers what goes wrong with a page, as guarded as the others', async () => {
    const cases: [string, number][] = [
      ['/ui/nothing', 404],
      ['/ui/applications/x', 404],
      ['/ui/sign-in?return=%ff', 400],
      ['/ui/?[=1', 400],
    ];
    for (const [path, status] of cases) {
      const answer = await tab.get(path);
      assert.equal(answer.status, status, path);
      assert.match(String(answer.headers['content-type']), /^text\/html/);
      assert.match(String(answer.headers['content-security-policy']), /default-src 'none'.*frame-ancestors 'none'/);
      assert.match(answer.text, /<h1>/);
    }
    const large = await tab.post('/ui/sign-in', { email: 'x'.repeat(100_000) });
    assert.equal(large.status, 400);
  });
});

describe('the colours', () => {
  const css = readFileSync(join(import.meta.dirname, '../../../src/server/ui/style.css'), 'utf8');

  const luminance = (colour: string): number => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one: string, other: string): number => {
    const [a, b] = [luminance(one), luminance(other)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };

  for (const [at, name] of ['light', 'dark'].entries()) {
    test(`have the contrast that WCAG asks for, in ${name}`, () => {
      const colour = (of: string): string => {
        const values = new RegExp(`--${of}: light-dark\\((#[0-9a-f]{6}), (#[0-9a-f]{6})\\);`).exec(css) ?? [];
        const value = values[1 + at];
        assert.ok(value, of);
        return value;
      };
      const texts: [string, string[]][] = [
        ['text', ['ground', 'card', 'field', 'code-ground']],
        ['soft', ['ground', 'card']],
        ['accent', ['ground', 'card']],
        ['accent-strong', ['ground', 'card']],
        ['on-accent', ['accent', 'accent-strong']],
        ['good', ['good-ground', 'card']],
        ['bad', ['bad-ground', 'card']],
      ];
      for (const [text, grounds] of texts) {
        for (const ground of grounds) {
          const ratio = contrast(colour(text), colour(ground));
          assert.ok(ratio >= 4.5, `${text} on ${ground}: ${ratio.toFixed(2)}`);
        }
      }
      for (const ground of ['card', 'ground']) {
        assert.ok(contrast(colour('field-line'), colour(ground)) >= 3, `the edge of a field on ${ground}`);
      }
    });
  }
});

describe('the template', () => {
  test('escapes every text, and nothing twice', () => {
    const inner = html`<b title="${`"'&`}">${'<x>'}</b>`;
    const list = [html`<i>${1n}</i>`, '<', false as const, undefined];
    assert.equal(
      html`<p>${inner}${list}${0}</p>`.text,
      '<p><b title="&quot;&#39;&amp;">&lt;x&gt;</b><i>1</i>&lt;0</p>',
    );
  });
});
