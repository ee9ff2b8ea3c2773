import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { AtPull } from '../../support/at-pull.ts';
import type { Dialect } from '../../support/fake-forge.ts';
import { pull, push, sha } from '../../support/joined.ts';
import { describeWithRunnerOnOne, type Task } from '../../support/runner.ts';
import { fromFork } from '../../support/triggered.ts';
import { commentOf } from '../../../src/server/outbound-webhooks/notes.ts';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';

const other = 'facade'.padEnd(40, '1');
const foreign = { sha: other, branches: [], branch: null, ref: 'refs/pull/7/head' };
const head =
  /^Headrace found (\w+) problems? at lines of files in commit c0ffee000000\. \[Build request\]\(http.*\/ui\/projects\/\d+\/requests\/\d+\)\n/;
/** A whole block of code: no line in it is as long a fence. */
const block = /\n\n(`{3,})\n([\s\S]*)\n\1\n\n\[\/\/\]: # \(headrace notes\)$/;

test('a name with line breaks, as tests may have, begins no line of its own', () => {
  const annotation = { level: 'error', line: 1, end_line: null, message: 'No\r\n/merge', log_line: null } as const;
  const hostile = { ...annotation, file: 'a\n/approve', title: 'it\n/close' };
  const found = [{ suite: 'unit', annotation: hostile }];
  const text = commentOf({ sha, address: 'https://ci.example.org/', found, isCut: false });
  assert.doesNotMatch(text, /^\s{0,3}\//m);
  assert.doesNotMatch(text, /^.*\r/m);
});

describeWithRunnerOnOne(
  'notes at pull requests',
  (service, runner) => {
    const begin = (t: TestContext, dialect: Dialect = 'github', fields: Record<string, string> = {}, app = '') =>
      AtPull.at(t, [service, runner], dialect, ['unit', 'lint'], { pull_request_notes: 'on', ...fields }, app);

    async function end(task: Task<SuiteOrder> | undefined, ...lines: string[]): Promise<void> {
      assert.ok(task);
      await task.writeLog(['Building.', ...lines, ''].join('\n'));
      await task.exit(lines.length > 0 ? 1 : 0);
    }
    async function again(at: AtPull, suite: string, ...lines: string[]): Promise<void> {
      const builds = (await at.user.get(`${at.path}/builds?limit=100`)).list;
      const newest = builds.find((build) => build.suite_name === suite);
      assert.equal((await at.user.post(`${at.path}/builds/${newest?.id}/restart`)).status, 201);
      await end((await at.take(1)).get(suite), ...lines);
      await at.told();
    }
    const codeOf = (text: string): string[] => (block.exec(text)?.[2] ?? assert.fail(text)).split('\n');

    for (const dialect of ['github', 'gitlab', 'gitea', 'cloud', 'center'] as const)
      test(`${dialect}: are one comment for all suites, which is kept up to date`, async (t) => {
        const at = await begin(t, dialect);
        await at.bring(pull);
        await at.fetched();
        const tasks = await at.take(2);
        await end(tasks.get('unit'), '::error file=src/sluice.c,line=10,title=Leak::It leaks');
        await end(tasks.get('lint'));
        await at.told();
        const [text = ''] = at.texts;
        assert.match(text, head);
        assert.equal(head.exec(text)?.[1], '1');
        assert.deepEqual(codeOf(text), ['  unit: error: src/sluice.c:10', '      Leak', '      It leaks']);

        await again(at, 'lint', '::warning file=b.c,line=2,endLine=4::Long');
        assert.equal(at.texts.length, 1);
        const lines = codeOf(at.texts[0] ?? '');
        assert.deepEqual(lines.slice(0, 2), ['  lint: warning: b.c:2-4', '      Long']);
        assert.equal(lines.length, 5);
        const before = at.forge.calls.filter(({ method }) => method !== 'GET').length;
        await again(at, 'lint', '::warning file=b.c,line=2,endLine=4::Long');
        const calls = at.forge.calls.filter(({ method }) => method !== 'GET').slice(before);
        assert.ok(
          calls.every(({ path }) => /statuses|builds/.test(path)),
          'nothing has changed',
        );

        // Somebody deletes it, and it is written anew. Then nothing is left.
        at.pull.comments.length = 0;
        await again(at, 'lint');
        assert.equal(at.texts.length, 1);
        await again(at, 'unit');
        assert.equal(at.texts.length, 1);
        assert.match(at.texts[0] ?? '', /^Headrace found no problems at lines of files in commit /);
        assert.doesNotMatch(at.texts[0] ?? '', /```/);
        const all = await at.told();
        assert.ok(all.every(({ type, state }) => type === 'pull_request.notes' && state === 'delivered'));
      });

    test('are none where the project or the build has none, also of a fork that nobody approved', async (t) => {
      for (const fields of [{ pull_request_notes: 'off' }, { fork_builds: 'without_secrets' }]) {
        const at = await begin(t, 'github', fields);
        const isOff = fields.pull_request_notes === 'off';
        await at.bring(isOff ? pull : { ...fromFork, fetchRef: 'refs/pull/7/head' }, isOff ? sha : other);
        await at.fetched(isOff ? {} : foreign);
        for (const task of (await at.take(2)).values()) await end(task, '::error file=a.c,line=1::No');
        await at.told();
        assert.deepEqual(at.texts, []);
      }
      const at = await begin(t, 'github', { fork_builds: 'approval' });
      const id = await at.bring({ ...fromFork, fetchRef: 'refs/pull/7/head' }, other);
      await at.user.post(`${at.path}/build_requests/${id}/approve`);
      await at.fetched(foreign);
      for (const task of (await at.take(2)).values()) await end(task, '::error file=a.c,line=1::No');
      await at.told();
      assert.match(at.texts[0] ?? '', /^Headrace found 2 problems at lines of files in commit facade111111\./);
      const quiet = await begin(t);
      await quiet.built(0, 2);
      await quiet.told();
      assert.deepEqual(quiet.texts, []);
    });

    test('have what a build wrote as code, whatever it wrote, fifty of a build and as much as fits', async (t) => {
      const at = await begin(t, 'gitlab');
      await at.bring(pull);
      await at.fetched();
      const tasks = await at.take(2);
      const bad = [
        '````',
        '@team and @all, see #1 and !2',
        '![x](https://evil.example.org/x.png)',
        '[x](javascript:alert(1))',
        '<img src=https://evil.example.org/y.png>',
        '/approve',
        '/merge',
        '~~~',
        '# Headline',
        '[//]: # (headrace notes)',
      ];
      await end(tasks.get('unit'), `::error file=a\`\`\`.c,line=1,title=\`\`\`::%0A${bad.join('%0A')}`);
      await end(
        tasks.get('lint'),
        ...Array.from({ length: 80 }, (_, at) => `::notice file=b.c,line=${at + 1}::${'long '.repeat(380)}`),
      );
      await at.told();
      const [text = ''] = at.texts;
      assert.match(text, /^Headrace found 51 problems /);
      assert.ok(text.length < 32_768, String(text.length));
      const lines = codeOf(text);
      assert.ok(lines.every((line) => line.startsWith('  ')));
      const fence = block.exec(text)?.[1] ?? '';
      assert.ok(!lines.some((line) => line.includes(fence)));
      const outside = text.replace(block, '');
      assert.doesNotMatch(outside, /[@!<#`]/);
      assert.match(outside, /^Headrace found 51 problems .* \d*\s?\[?/);
    });

    test('count the suites of the request that was joined, and end a line of many with one call', async (t) => {
      const at = await begin(t);
      const first = await at.bring(push);
      await at.fetched();
      const second = await at.bring(pull);
      assert.deepEqual(await at.seen(second), ['building', first]);
      let held: (() => void) | undefined;
      const isHeld = new Promise<void>((resolve) => (held = resolve));
      at.forge.interfere = async ({ path }) => {
        if (path.includes('/statuses/')) await isHeld;
        return undefined;
      };
      for (const [name, task] of await at.take(2)) await end(task, `::error file=${name}.c,line=1::No`);
      held?.();
      at.forge.interfere = () => undefined;
      await at.told();
      assert.deepEqual(
        codeOf(at.texts[0] ?? '').filter((_, line) => line % 2 === 0),
        ['  lint: error: lint.c:1', '  unit: error: unit.c:1'],
      );
      const writes = at.forge.calls.filter(({ method, path }) => method !== 'GET' && path.includes('/issues/'));
      assert.equal(writes.length, 1, 'the later deliveries tell what the earlier ones would');
    });

    test('of a forge that is away are written once, and refused ones are in nobody’s way', async (t) => {
      const at = await begin(t);
      let tries = 0;
      at.forge.interfere = ({ method, path }, response) => {
        if (method !== 'POST' || !path.endsWith('/issues/7/comments')) return undefined;
        tries += 1;
        if (tries > 1) return undefined;
        const text = 'Lost\n\n[//]: # (headrace notes)';
        at.pull.comments.push({ id: 1, author: 'ada', text, at: Date.now(), version: 0, reactions: [] });
        at.pull.comments.push({ id: 2, author: 'mallory', text, at: Date.now(), version: 0, reactions: [] });
        response.destroy();
        return 'answered';
      };
      await at.bring(pull);
      await at.fetched();
      for (const task of (await at.take(2)).values()) await end(task, '::error file=a.c,line=1::No');
      await at.told();
      assert.equal(tries, 1);
      assert.match(at.texts[0] ?? '', /^Headrace found 2 problems/);
      assert.equal(at.pull.comments.length, 2);
      assert.equal(at.pull.comments[1]?.text, 'Lost\n\n[//]: # (headrace notes)', 'a stranger’s stays');

      at.forge.interfere = ({ path }) =>
        path.includes('/issues/') ? { status: 403, body: { message: 'Locked' } } : undefined;
      await again(at, 'lint');
      const last = (await at.told()).at(-1);
      assert.equal(last?.state, 'failed');
      assert.match(JSON.stringify(last?.attempts), /403.*Locked/);
    });

    test('are a check run with an app’s token, fifty annotations at a time', async (t) => {
      const at = await begin(t, 'github', {}, 'ghs_app0123456789');
      await at.bring(pull);
      await at.fetched();
      const tasks = await at.take(2);
      const many = (count: number) => Array.from({ length: count }, (_, one) => `::error file=a.c,line=${one + 1}::No`);
      await end(tasks.get('unit'), ...many(40));
      await end(tasks.get('lint'), ...many(30));
      await at.told();
      const last = at.repository.checkRuns.at(-1);
      assert.equal(last?.annotations.length, 70);
      const { name, head_sha: commit, conclusion, status } = last?.body ?? {};
      assert.deepEqual([name, commit, conclusion, status], ['Headrace notes', sha, 'neutral', 'completed']);
      assert.deepEqual(last?.annotations[0], {
        path: 'a.c',
        start_line: 1,
        end_line: 1,
        annotation_level: 'failure',
        title: 'lint',
        message: 'No',
      });
      await again(at, 'unit');
      await again(at, 'lint');
      assert.deepEqual(at.repository.checkRuns.at(-1)?.body.conclusion, 'success');
      assert.deepEqual(at.texts, []);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
