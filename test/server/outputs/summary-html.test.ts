import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { htmlOfSummary } from '../../../src/server/outputs/summary-html.ts';
import { createWorkerThread } from '../../../src/shared/lib/worker-thread.ts';

const artifacts = new Map([
  ['out/plot 1.png', '/ui/data/plot'],
  ['report.html', '/ui/data/report'],
]);
const shown = (markdown: string): string => htmlOfSummary({ markdown, artifacts }).trim();

const forbidden =
  /<\/?(?:script|style|link|form|input|button|textarea|iframe|object|embed|base|svg|math|meta|title|template|video|audio|source|picture|noscript|section|main|body)\b/i;
const forbiddenAttribute = /\s(?:on\w+|id|name|class|style|srcset|background|data-[\w-]+|target)=/i;

describe('summaries as HTML', () => {
  test('are GitHub’s Markdown, below the page’s own headings', () => {
    assert.equal(shown('# One\n## Two'), '<h3>One</h3>\n<h4>Two</h4>');
    assert.match(shown('| a | b |\n|--|:-:|\n| 1 | ~~2~~ |'), /<td align="center"><del>2<\/del><\/td>/);
    assert.equal(shown('- [x] done\n- [ ] open').replaceAll(/\s+/g, ' '), '<ul> <li>☑ done</li> <li>☐ open</li> </ul>');
    assert.match(shown('```js\nx < 1\n```'), /^<pre><code>x &lt; 1\n<\/code><\/pre>$/);
    const folded = '<details open><summary>More</summary>x</details>';
    assert.equal(shown(folded), folded);
  });

  test('have pictures of the build’s artifacts only, and links that run nothing', () => {
    assert.equal(shown('![a plot](out/plot%201.png)'), '<p><img src="/ui/data/plot" alt="a plot" /></p>');
    assert.equal(
      shown('<img src="./out/plot 1.png" width="9" onerror="x()">'),
      '<img width="9" src="/ui/data/plot" alt="" />',
    );
    const elsewhere = [
      'https://evil.example/p.png',
      '//evil.example/p.png',
      'data:image/png;base64,AA',
      '/ui/data/plot',
    ];
    for (const address of [...elsewhere, '../out/plot 1.png'])
      assert.equal(shown(`<img src="${address}" alt="gone">`), '<span>gone</span>');
    const rel = 'rel="nofollow noopener noreferrer"';
    assert.equal(shown('[x](https://example.org/?a=1)'), `<p><a href="https://example.org/?a=1" ${rel}>x</a></p>`);
    assert.equal(shown('[x](report.html)'), `<p><a href="/ui/data/report" ${rel}>x</a></p>`);
    for (const bad of [
      'javascript:alert(1)',
      'JaVa\tScRiPt:alert(1)',
      '&#106;avascript:alert(1)',
      'data:text/html,x',
      'vbscript:x',
      '\u0001javascript:x',
      'blob:https://x',
      '//evil.example',
    ]) {
      const made = shown(`<a href="${bad}" target="_top" ping="/x">x</a> [y](<${bad}>)`);
      assert.doesNotMatch(made, /target|ping|href="\/\//, bad);
      for (const [, href = ''] of made.matchAll(/href="([^"]*)"/g))
        assert.match(new URL(href, 'https://page.example').protocol, /^(https?|mailto):$/, bad);
    }
  });

  test('have no scripts, styles, forms, frames, or names that a page could take for its own', () => {
    for (const attack of [
      '<script>alert(1)</script>',
      '<style>*{display:none}</style>',
      '<link rel="stylesheet" href="https://evil.example">',
      '<p id="log" name="log" class="card" style="position:fixed" data-live onclick="x()">t</p>',
      '<form action="/sign-out" method="post"><input name="x"><button>Go</button><textarea>a</textarea></form>',
      '<iframe src="/"></iframe><object data="/"></object><embed src="/"><base href="https://evil.example/">',
      '<svg><script>x</script><a xlink:href="javascript:x">y</a></svg><math><mtext><style><img src=x onerror=x></style>',
      '<meta http-equiv="refresh" content="0;url=https://evil.example"><title>x</title><template><p id=a></template>',
      '<video src="/x" poster="/y"></video><audio src="/z"></audio><source srcset="/q"><picture></picture>',
      '<noscript><p title="</noscript><img src=x onerror=x>"></noscript>',
      '<!--><img src=x onerror=x>--><![CDATA[<img src=x onerror=x>]]>',
      '<a href="x" onmouseover="x()" id=parentNode>t</a><a name="cookie">u</a><img name="body" src="report.html">',
      '[x]: <https://a.example> "\\"><script>x</script>"\n[x]',
      '`<script>`</code><script>x</script>',
      '<table background="/x"><tr><td width=1 style="x" align="left" onload=x>c</td></tr></table>',
      '<details ontoggle="x()" open><summary>s</summary></details>',
      '</section></main></body><h1 id="x">out</h1>',
    ]) {
      const made = shown(attack);
      assert.doesNotMatch(made, forbidden, attack);
      for (const [tag] of made.matchAll(/<[^>]*>/g))
        assert.doesNotMatch(tag.replaceAll(/"[^"]*"/g, '""'), forbiddenAttribute, `${attack}: ${tag}`);
    }
  });

  test('that would take forever or fill the memory end, and the thread goes on with others', async () => {
    const limits = { mostOfOne: 100, mostOfAll: 100, timeoutMs: 3000 };
    const thread = createWorkerThread<{ markdown: string; artifacts: typeof artifacts }, string>(
      'server/outputs/summary-worker.ts',
      limits,
    );
    const size = 1024 * 1024;
    const pathological = [
      '> '.repeat(size / 2),
      '- '.repeat(size / 2),
      '<b>'.repeat(size / 3),
      `|${'a|'.repeat(5000)}\n|${'-|'.repeat(5000)}\n${'|\n'.repeat(400_000)}`,
    ];
    try {
      for (const markdown of pathological) {
        const made = await thread.ask(1n, { markdown, artifacts }).catch((error: unknown) => error as Error);
        assert.ok(typeof made !== 'string' || made.length <= 4 * size);
      }
      assert.equal((await thread.ask(1n, { markdown: 'a *b*', artifacts })).trim(), '<p>a <em>b</em></p>');
    } finally {
      await thread.close();
    }
  });
});
