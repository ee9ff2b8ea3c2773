import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { assertAccessible } from '../../support/accessibility.ts';
import { TestBrowser } from '../../support/browser.ts';
import type { Record_ } from '../../support/client.ts';
import { onOneDatabase } from '../../support/databases.ts';
import { freePort } from '../../support/ports.ts';
import { addArtifact, addBuild, addCommit } from '../../support/rows.ts';
import { describeServiceOnOne, Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

interface Built {
  project: Record_;
  suite: Record_;
  build: { id: bigint };
}

async function aBuild(service: Service, owner: User): Promise<Built> {
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const commit = await addCommit(service.store, project);
  const buildRequest = await owner.requestBuild(project);
  const over = { build_state: 'passed', started_at: 1n, finished_at: 2n, exit_status: 0 };
  return { project, suite, build: await addBuild(service.store, project, { commit, buildRequest, suite }, over) };
}

describeServiceOnOne('artifacts on the page of a build', (service) => {
  let alice: User;
  let tab: Tab;
  before(async () => {
    alice = await service.user();
    tab = new Tab(service);
    await tab.signIn(alice.credentials);
  });

  test('are listed as text, in pages of names, and download as before', async () => {
    const { project, build } = await aBuild(service, alice);
    const page = `/ui/projects/${project.id}/builds/${build.id}/artifacts`;
    assert.match((await tab.get(page)).text, /No artifacts/);
    const markup = `<script>alert('1')</script>.html`;
    const file = await addArtifact(service.store, build, `dist/${markup}`, markup);
    for (let more = 0; more < 205; more += 1) await addArtifact(service.store, build, `log/${more}`);
    const { text } = await tab.get(page);
    assert.match(text, /206 files, 85[0-9] bytes/);
    assert.ok(!text.includes(markup));
    assert.ok(text.includes(`href="${page}/${file.id}"`) && !text.includes('log/204<'));
    const [, later = ''] = /href="([^"]+)">Later files/.exec(text) ?? [];
    const second = (await tab.get(later)).text;
    assert.ok(second.includes('log/204<') && !second.includes('Later files'));
    const [, earlier = ''] = /href="([^"]+)">Earlier files/.exec(second) ?? [];
    assert.ok((await tab.get(earlier)).text.includes(`href="${page}/${file.id}"`));
    const address = `/ui/data/projects/${project.id}/builds/${build.id}/artifacts`;
    assert.ok(text.includes(`href="${address}.zip"`));
    assert.ok((await tab.get(`${page}/${file.id}`)).text.includes(`href="${address}/${file.id}" download`));
    const headers = { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'navigate' };
    const download = await tab.get(`${address}/${file.id}`, headers);
    assert.deepEqual([download.text, download.headers['content-type']], [markup, 'text/plain; charset=utf-8']);
    assert.match(String(download.headers['content-disposition']), /^attachment; /);
    assert.match(String(download.headers['content-security-policy']), /sandbox/);
    assert.equal((await tab.get(`${address}.zip`, headers)).bytes.subarray(0, 2).toString(), 'PK');
    const bob = new Tab(service);
    await bob.signIn((await service.user()).credentials);
    for (const path of [`${address}/${file.id}`, `${address}/${file.id}/content`]) {
      assert.equal((await tab.get(path, { 'sec-fetch-site': 'cross-site' })).status, 401);
      assert.equal((await bob.get(path, headers)).status, 404);
      assert.equal((await new Tab(service).get(path, headers)).status, 401);
    }
    assert.equal((await bob.get(`${page}/${file.id}`)).status, 404);
  });

  test('open where they are, by their bytes, and run no script on our origin [promise: artifact-downloads]', async () => {
    const { project, build } = await aBuild(service, alice);
    const base = `projects/${project.id}/builds/${build.id}/artifacts`;
    const script = '<html><script>alert(1)</script></html>';
    const svg = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>';
    const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
    const pdf = '%PDF-1.7\n1 0 obj<</S/JavaScript/JS(app.alert(1))>>';
    const [picture, framed, pdfPart] = [
      /<img src="[^"]+\/content"/,
      /<iframe\b[^>]* sandbox=""/s,
      /<object\b[^>]* data=/s,
    ];
    const lines = /class="log-line/;
    const open = 'no';
    const cases: [path: string, content: string | Buffer, shows: RegExp, type: string][] = [
      ['a.png', png, picture, 'image/png'],
      ['png.html', png, picture, 'image/png'],
      ['a.svg', svg, picture, 'image/svg+xml'],
      ['a.gif', `GIF89a/*${script}*/`, picture, 'image/gif'],
      ['a.html', script, framed, 'text/html'],
      ['a.XHTML', script, framed, 'application/xhtml+xml'],
      ['a.pdf', pdf, pdfPart, 'application/pdf'],
      ['pdf.html', pdf, pdfPart, 'application/pdf'],
      ['html.png', script, lines, open],
      ['svg.txt', svg, lines, open],
      ['noname', script, lines, open],
      [
        'sheet.xml',
        '<?xml-stylesheet type="text/xsl" href="#x"?><html xmlns="http://www.w3.org/1999/xhtml"/>',
        lines,
        open,
      ],
      ['worker.js', 'self.onfetch = 1', lines, open],
      ['empty.html', '', /An empty file|<iframe/, 'text/html'],
      ['empty', '', /An empty file/, open],
      ['a.zip', Buffer.from('504b0304140000000800', 'hex'), /Nothing to show/, open],
      ['nul.txt', 'text\0more', /Nothing to show/, open],
    ];
    const headers = { 'sec-fetch-site': 'same-origin' };
    for (const [path, content, shows, type] of cases) {
      const { id } = await addArtifact(service.store, build, path, content);
      const { status, text, headers: sent } = await tab.get(`/ui/${base}/${id}`);
      assert.equal(status, 200, path);
      assert.match(text, shows, path);
      assert.ok(!text.includes('<script>alert'), path);
      assert.match(
        String(sent['content-security-policy']),
        /frame-src 'self'; object-src 'self'.*frame-ancestors 'none'/,
      );
      const bytes = await tab.get(`/ui/data/${base}/${id}/content`, headers);
      if (type === open) {
        assert.equal(bytes.status, 404, path);
        continue;
      }
      assert.equal(bytes.headers['content-type'], type, path);
      const alone = await tab.get(`/ui/data/${base}/${id}/content`, { ...headers, 'sec-fetch-dest': 'document' });
      assert.equal(alone.status, /html/.test(type) ? 404 : 200, path);
      const policy = String(bytes.headers['content-security-policy']);
      assert.match(policy, /^default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'/);
      assert.doesNotMatch(policy, /allow-|script-src/);
      assert.equal(policy.endsWith('; sandbox'), type !== 'application/pdf', path);
      assert.deepEqual(
        [bytes.headers['x-content-type-options'], bytes.headers['cross-origin-resource-policy']],
        ['nosniff', 'same-origin'],
      );
    }
    const page = (await tab.get(`/ui/${base}`)).text;
    assert.ok(!/>Sites:/.test(page));
    const index = await addArtifact(service.store, build, 'report/index.html', script);
    await addArtifact(service.store, build, 'report/old/index.html', script);
    await addArtifact(service.store, build, 'other/INDEX.HTML', script);
    const sites = /Sites:<\/span>(.*?)<\/p>/s.exec((await tab.get(`/ui/${base}`)).text)?.[1] ?? '';
    assert.deepEqual(sites.match(/href="[^"]+">[^<]+/g), [`href="/ui/${base}/${index.id}">report/`]);
    const source = await tab.get(`/ui/${base}/${index.id}?source=true`);
    assert.ok(source.text.includes('&lt;script&gt;alert(1)&lt;/script&gt;') && !source.text.includes('<iframe'));
    assert.match((await tab.get(`/ui/${base}/${index.id}`)).text, /HEADRACE_ARTIFACT_URL/);
  });

  test('show texts in pages of lines, and reports as tests', async () => {
    const { project, build } = await aBuild(service, alice);
    const base = `/ui/projects/${project.id}/builds/${build.id}/artifacts`;
    const shown = async (path: string, content: string | Buffer, query = '') => {
      const { id } = await addArtifact(service.store, build, path, content);
      return { path: `${base}/${id}`, text: (await tab.get(`${base}/${id}${query}`)).text };
    };
    const numbersIn = (text: string): number[] => Array.from(text.matchAll(/id="L(\d+)"/g), ([, one]) => Number(one));
    const thousand = Array.from({ length: 1203 }, (_, at) => `line ${at + 1}\r\n`).join('');
    const log = await shown('build.log', `\u001B[31mred\u001B[0m \u202Eevil\u0007\n${thousand}`);
    assert.match(log.text, /<span class="log-c1">red<\/span>/);
    assert.ok(!log.text.includes('\u202E') && !log.text.includes('\u0007'));
    assert.match(log.text, /Lines 1 to 500 of 1204/);
    const at = async (from: number | string): Promise<string> => (await tab.get(`${log.path}?from=${from}`)).text;
    const middle = await at(501);
    assert.deepEqual([numbersIn(middle)[0], numbersIn(middle).at(-1)], [501, 1000]);
    assert.match(middle, />line 500</);
    assert.ok(middle.includes(`${log.path}?from=1"`) && middle.includes(`${log.path}?from=1001"`));
    for (const from of [1001, 1204]) assert.equal(numbersIn(await at(from)).at(-1), 1204);
    assert.deepEqual(numbersIn(await at(9_999_999)).length, 500);
    assert.equal(numbersIn(await at('x')).length, 500);

    const long = 'x'.repeat(3 * 1024 * 1024);
    const wide = await shown('wide.txt', `short\n${long}\nafter`);
    assert.deepEqual(numbersIn(wide.text), [1]);
    const second = (await tab.get(`${wide.path}?from=2`)).text;
    assert.ok(numbersIn(second).length === 1 && second.includes(' …<') && second.length < 100_000);
    assert.deepEqual(numbersIn((await tab.get(`${wide.path}?from=3`)).text), [3]);
    const huge = await shown('huge.txt', Buffer.alloc(9 * 1024 * 1024, 'a line of text\n'));
    assert.match(huge.text, /Only its beginning is shown here/);
    const end = (await tab.get(`${huge.path}?from=559000`)).text;
    assert.equal(numbersIn(end)[0], 559_000);

    const report = await shown(
      'junit.xml',
      `<testsuite name="s"><testcase name="good" time="0.5"/><testcase name="&lt;bad&gt;" file="a.ts"><failure message="no &lt;b&gt;">at a.ts</failure></testcase><testcase name="left"><skipped/></testcase></testsuite>`,
    );
    assert.match(report.text, /3 tests: 1 failed, 1 skipped, 1 passed/);
    assert.ok(report.text.includes('&lt;bad&gt;') && report.text.includes('no &lt;b&gt;'));
    assert.ok(report.text.indexOf('&lt;bad&gt;') < report.text.indexOf('>good<'));
    const bomb = `<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/>`;
    const broken = await shown('bomb.xml', bomb);
    assert.match(broken.text, /could not be read to its end: it is not well-formed XML/);
    const many = Array.from({ length: 300 }, (_, one) => `<testcase name="t${one}"/>`).join('');
    const full = await shown('many.xml', `<testsuites><testsuite name="s">${many}</testsuite></testsuites>`);
    assert.match(full.text, /300 tests: .* The first 200 are listed/s);
  });

  test('are chosen in the form of the suite, a pattern a line', async () => {
    const { project, suite } = await aBuild(service, alice);
    const path = `/ui/projects/${project.id}/settings/suites/${suite.id}`;
    const save = async (artifacts: string) => {
      const page = await tab.get(path);
      const fields = { do: 'save', name: 'unit', command: 'make', 'artifacts[]': artifacts };
      return tab.submit(page, path, fields);
    };
    const kept = async (): Promise<unknown> =>
      (await alice.get(`/projects/${project.id}/suites/${suite.id}`)).record.artifacts;
    assert.equal((await save('dist\r\n\r\n  *.log \r\n')).status, 303);
    assert.deepEqual(await kept(), ['dist', '*.log']);
    assert.match((await tab.get(path)).text, />\s*dist\n\*\.log<\/textarea>/);
    const refused = await save('dist\n../out');
    assert.match(refused.text, /Patterns lead down from the workspace/);
    assert.match(refused.text, />\s*dist\n\.\.\/out<\/textarea>/);
    assert.deepEqual(await kept(), ['dist', '*.log']);
    assert.equal((await save('')).status, 303);
    assert.deepEqual(await kept(), []);
  });
});

/** Tries what a page of our origin, or of another report, must not get, and says it. */
const run = `<!doctype html><link rel="stylesheet" href="style.css"><p id="said">not run</p><script>
  const tried = (what) => { try { return String(what()); } catch { return 'refused'; } };
  const facts = [
    origin,
    tried(() => document.cookie),
    tried(() => (document.cookie = 'a=1; domain=localhost')),
    tried(() => localStorage.length),
    tried(() => parent === self ? 'alone' : parent.document.title),
    tried(() => top === self ? 'alone' : (top.location = 'about:blank')),
  ];
  const registered = async () => navigator.serviceWorker.register('worker.js');
  registered().then(() => 'registered', () => 'refused').then(async (last) => {
    const { text } = await (await fetch('data.json')).json();
    said.textContent = [...facts, last, text].join(' ');
  });
</script>`;

describe('artifacts in a real browser', () => {
  onOneDatabase((database) => {
    // What a browser does depends on no database.
    if (database.kind !== 'sqlite') return;
    const settings: Record<string, string> = {};
    const service = new Service(database, { settings });
    const bare = new Service(database);
    const browser = new TestBrowser(database);
    before(async () => {
      const port = String(await freePort());
      const [base_url, artifact_url] = ['ci', 'artifacts'].map((name) => `https://${name}.localhost:${port}`);
      Object.assign(settings, { port, base_url, artifact_url });
      await Promise.all([service.start(), bare.start()]);
    });

    test('open at every width, with scripts only at a host name of their own [promise: artifact-origin]', async () => {
      const alice = await service.user();
      const { project, suite, build } = await aBuild(service, alice);
      const index = await addArtifact(service.store, build, 'report/index.html', run);
      await addArtifact(service.store, build, 'report/style.css', 'p { color: rgb(1, 2, 3) }');
      await addArtifact(service.store, build, 'report/data.json', '{"text":"and fetched"}');
      const log = await addArtifact(
        service.store,
        build,
        `${'a-long-name-'.repeat(20)}/${'even-longer'.repeat(20)}.txt`,
        `${'a long line '.repeat(60)}\n`.repeat(600),
      );
      const junit = await addArtifact(
        service.store,
        build,
        'junit.xml',
        `<testsuite name="unit"><testcase name="${'long'.repeat(80)}"><failure>at ${'place'.repeat(90)}</failure></testcase></testsuite>`,
      );
      const drawing = await addArtifact(
        service.store,
        build,
        'wide.svg',
        '<svg xmlns="http://www.w3.org/2000/svg" width="3000" height="200"><rect width="3000" height="200" fill="green"/></svg>',
      );
      const pdf = await addArtifact(service.store, build, 'a.pdf', '%PDF-1.4\n');
      const other = await addArtifact(service.store, build, 'a.bin', Buffer.from([0, 1, 2]));
      const artifacts = `${service.address}/ui/projects/${project.id}/builds/${build.id}/artifacts`;
      const settingsPage = `${service.address}/ui/projects/${project.id}/settings/suites/${suite.id}`;
      const pages = [index, log, junit, drawing, pdf, other].map(({ id }) => `${artifacts}/${id}`);
      await assertAccessible(
        (options) => browser.signIn(service.address, alice.credentials, options),
        [artifacts, settingsPage, ...pages],
      );
      const tab = await browser.signIn(service.address, alice.credentials, { viewport: { width: 1920, height: 900 } });
      await tab.goto(artifacts);
      await tab.getByRole('link', { name: 'report/', exact: true }).click();
      const said = tab.frameLocator('iframe').locator('#said');
      await said.filter({ hasText: 'and fetched' }).waitFor();
      assert.equal(await said.textContent(), 'null refused refused refused refused refused refused and fetched');
      assert.match(await tab.title(), /^index\.html/);
      assert.equal(await said.evaluate('getComputedStyle(said).color'), 'rgb(1, 2, 3)');
      const alone = tab.waitForEvent('popup');
      await tab.getByRole('link', { name: 'Open alone' }).click();
      const own = (await alone).locator('#said');
      await own.filter({ hasText: 'and fetched' }).waitFor();
      assert.equal(await own.textContent(), 'null refused refused refused alone alone refused and fetched');
      assert.deepEqual(await tab.context().cookies(settings.artifact_url), []);
      const downloads = tab.waitForEvent('download');
      await tab.getByRole('link', { name: 'Download' }).click();
      assert.equal((await downloads).suggestedFilename(), 'index.html');

      const bob = await bare.user();
      const { project: second, build: passed } = await aBuild(bare, bob);
      const { id } = await addArtifact(
        bare.store,
        passed,
        'index.html',
        `<style>p { color: rgb(1, 2, 3) }</style>${run}`,
      );
      const plain = await browser.signIn(bare.address, bob.credentials);
      await plain.goto(`${bare.address}/ui/projects/${second.id}/builds/${passed.id}/artifacts/${id}`);
      await plain.getByText('no host name of its own for artifacts').waitFor();
      const shown = plain.frameLocator('iframe').locator('#said');
      await shown.waitFor();
      assert.equal(await shown.textContent(), 'not run');
      const frame = plain.frames().find((one) => one.url().endsWith('/content'));
      assert.ok(frame, 'the page is in the frame');
    });
  });
});
