import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { CommitReport, FinishReport } from '../../../src/shared/protocol/index.ts';
import type { Brief } from '../../../src/shared/records/brief.ts';
import type { Record_ } from '../../support/client.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

const green = [
  'npm ci',
  'added 312 packages in 4s',
  'started at 2026-11-20T10:03:11Z on 127.0.0.1:41234',
  'wrote /tmp/build-Xa81/out.o',
  'PASS queue',
  'image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
  '12 passed',
  '',
].join('\n');

const redWith = (failure: string): string =>
  [
    'npm ci',
    'added 313 packages in 1m 12s',
    'started at 2027-01-02T03:04:05Z on 127.0.0.1:9',
    'wrote /tmp/build-kk2b/out.o',
    failure,
    'PASS queue',
    'image sha256:da39a3ee5e6b4b0d3255bfef95601890afd80709da39a3ee5e6b4b0d3255bfef',
    '13 passed',
    '',
  ].join('\n');

interface Run {
  status?: number;
  commit?: Partial<CommitReport>;
  report?: Partial<FinishReport>;
  /** Of a fork. */
  pull?: number;
  branch?: string;
}

describeWithRunner('briefs', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  let commits = 0;
  before(async () => {
    alice = await service.user();
  });
  const fresh = async (fields: Record<string, string> = {}): Promise<void> => {
    project = await alice.createProject();
    path = `/projects/${project.id}`;
    await alice.createSuite(project, { name: 'unit', command: 'make test', ...fields });
  };
  const ran = async (log: string, { status = 0, commit = {}, report = {}, pull, branch = 'main' }: Run = {}) => {
    commits += 1;
    const sha = commits.toString(16).padStart(40, 'f');
    const { record } = await alice.post(`${path}/build_requests`, { commit_ref: branch });
    const of = pull === undefined ? { branches: [branch], branch, ref: `refs/heads/${branch}` } : outside;
    await (await runner.take('fetch_commit')).fetched({ sha, ...of, ...commit });
    if (pull !== undefined)
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('build_requests')
          .set({ pull_request: BigInt(pull) })
          .where('id', '=', record.id)
          .execute(),
      );
    const task = await runner.take('run_suite');
    if (log !== '') await task.writeLog(log);
    await task.exit(status, { output: { from: 0, to: Buffer.byteLength(log) }, ...report });
    return task.order.work.environment.HEADRACE_BUILD_ID ?? '';
  };
  const outside = { branches: [], branch: null, ref: 'refs/pull/7/head', defaultHead: 'kept' as const };
  const red = (failure: string, more: Run = {}): Promise<string> => ran(redWith(failure), { status: 1, ...more });
  const briefOf = async (id: string, query = '', as = alice): Promise<Brief> => {
    const { status, record } = await as.get(`${path}/builds/${id}/brief${query}`);
    assert.equal(status, 200);
    return record as unknown as Brief;
  };
  const fresh_ = (lines: Brief['lines']): string[] => lines.filter((one) => one.new).map(({ text }) => text);

  test('show the lines that no passed run has, with two around, and nothing else of the log', async () => {
    await fresh();
    await ran(green);
    const brief = await briefOf(await red('the gate does not close'));
    assert.deepEqual(brief.step, { name: 'command', exit_status: 1 });
    assert.deepEqual(
      brief.lines.map(({ number, new: isNew }) => [number, isNew]),
      [
        [3, false],
        [4, false],
        [5, true],
        [6, false],
        [7, false],
      ],
    );
    assert.equal(brief.lines[2]?.text, 'the gate does not close');
    assert.equal(brief.reproduce, 'headrace exec unit');
    assert.equal(brief.truncated, false);
  });

  test('show the last lines where no line is new', async () => {
    await fresh();
    await ran(green);
    const brief = await briefOf(await ran(green, { status: 1 }));
    assert.deepEqual(fresh_(brief.lines), []);
    assert.equal(brief.lines.at(-1)?.text, '12 passed');
  });

  test('say what changed since the last run of the branch that passed', async () => {
    await fresh();
    const inputs = [{ kind: 'packages' as const, name: 'installed packages', digest: 'a'.repeat(64) }];
    await ran(green, { commit: { files: ['old.c'] }, report: { inputs } });
    const commit = { message: 'Break the gate\n\nMore.', files: ['gate.c'], tree: '2'.repeat(40) };
    const changed = [{ ...inputs[0], digest: 'b'.repeat(64) }] as typeof inputs;
    const { changed: found } = await briefOf(await red('broken', { commit, report: { inputs: changed } }));
    assert.deepEqual(
      found.commits.map(({ message }) => message),
      ['Break the gate'],
    );
    assert.deepEqual(found.files, ['gate.c']);
    assert.ok(found.inputs.some(({ kind, name }) => kind === 'packages' && name === 'installed packages'));
    assert.ok(found.inputs.some(({ kind }) => kind === 'tree'));
  });

  test('name changed variables to those who may see them, and to nobody else', async () => {
    await fresh();
    await alice.post(`${path}/environment_variables`, { name: 'STAGE', content: 'one', secret: 'false' });
    await ran(green);
    const { record: variables } = await alice.get(`${path}/environment_variables`);
    const [variable] = variables as unknown as Record_[];
    await alice.put(`${path}/environment_variables/${variable?.id}`, { content: 'two' });
    const id = await red('broken');
    assert.deepEqual((await briefOf(id)).changed.variables, ['STAGE']);
    assert.equal((await alice.put(path, { public: 'true' })).status, 200);
    for (const accept of ['application/json', 'text/plain', 'text/markdown']) {
      const answer = await alice.api.get(`${path}/builds/${id}/brief`, { headers: { accept } });
      assert.equal(answer.status, 200);
      assert.match(answer.text, /broken/);
      assert.doesNotMatch(answer.text, /STAGE|example\.org/);
    }
    assert.equal((await alice.api.get(`${path}/builds/${id}/log/diff`)).status, 200);
  });

  test('count how often a build ended like this before, and where', async () => {
    await fresh();
    await ran(green);
    await red('error: alpha at 10:00:01');
    await red('error: beta');
    await red('error: alpha at 11:22:33', { branch: 'topic' });
    const { seen } = await briefOf(await red('error: alpha at 12:00:59'));
    assert.equal(seen.count, 2);
    assert.deepEqual(new Set(seen.branches), new Set(['main', 'topic']));
    assert.ok(seen.since !== null && Math.abs(Date.parse(seen.since) - Date.now()) < 600_000);
    assert.deepEqual((await briefOf(await red('error: gamma'))).seen, { count: 0, since: null, branches: [] });
  });

  test('of others do not go by what a fork says', async () => {
    await fresh();
    await ran(green);
    await ran(`${green}poison\n`, { pull: 7 });
    await red('poison', { pull: 7 });
    const own = await briefOf(await red('poison'));
    assert.deepEqual([fresh_(own.lines), own.seen.count], [['poison'], 0]);
    const same = await briefOf(await red('poison', { pull: 7 }));
    assert.deepEqual([fresh_(same.lines), same.seen.count], [[], 2]);
    const other = await briefOf(await red('poison', { pull: 8 }));
    assert.deepEqual([fresh_(other.lines), other.seen.count], [['poison'], 1]);
  });

  test('prefer lines of the failed step', async () => {
    await fresh({
      command: '',
      'steps[0][name]': 'compile',
      'steps[0][command]': 'make',
      'steps[1][name]': 'check',
      'steps[1][command]': 'make check',
    });
    await ran('fine\n');
    const noise = Array.from(
      { length: 300 },
      (_, at) => `${'noise '.repeat(8)}${String.fromCharCode(97 + (at % 26))}${at}x`,
    );
    const log = `${noise.join('\n')}\nthe gate is shut\n`;
    const stepStates = [
      { name: 'compile', state: 'passed' as const, from: 0, to: 1, status: 0, line: 1 },
      { name: 'check', state: 'failed' as const, from: 1, to: 2, status: 3, line: 301 },
    ];
    const brief = await briefOf(await ran(log, { status: 3, report: { stepStates } }), '?max_bytes=1024');
    assert.deepEqual(brief.step, { name: 'check', exit_status: 3 });
    assert.ok(fresh_(brief.lines).includes('the gate is shut'));
    assert.equal(brief.truncated, true);
  });

  test('keep to max_bytes in whole characters, in each form', async () => {
    await fresh({ name: 'ünit '.repeat(40).trim() });
    const log = Array.from(
      { length: 400 },
      (_, at) => `${'ß😀'.repeat(1 + (at % 90))} error: ${String.fromCharCode(97 + (at % 26)).repeat(at)}`,
    );
    const id = await ran(log.join('\n'), { status: 1 });
    for (const accept of ['application/json', 'text/plain', 'text/markdown'])
      for (const size of [256, 257, 400, 1000, 8192, 65_536]) {
        const answer = await alice.api.get(`${path}/builds/${id}/brief?max_bytes=${size}`, {
          as: alice.credentials,
          headers: { accept },
        });
        assert.equal(answer.status, 200);
        assert.ok(answer.bytes.length <= size, `${accept} ${answer.bytes.length} of ${size}`);
        assert.ok(!answer.text.includes('\uFFFD'));
        if (accept === 'application/json')
          assert.equal((JSON.parse(answer.text) as { response: Brief }).response.truncated, true);
        else assert.match(String(answer.headers['content-type']), new RegExp(accept));
      }
    for (const size of ['255', '65537', 'x', '-1']) {
      const { status, body } = await alice.get(`${path}/builds/${id}/brief?max_bytes=${size}`);
      assert.deepEqual([status, body], [403, { error: { max_bytes: ['invalid_format'] } }]);
    }
  });

  test('hold nothing that controls a terminal, ends a fence or imitates a title', async () => {
    await fresh();
    await ran('fine\n');
    const hostile = [
      '\u001B[31merror: red\u001B[0m\u001B]0;title\u0007',
      'bidi \u202Ereversed\u202C zero\u200Bwidth \u0085 next',
      '````````',
      '```',
      'To reproduce it:',
      'Failed tests:',
      '# Heading',
      'progress 1%\rprogress 2%\rerror: over',
    ];
    const id = await ran(hostile.join('\n'), { status: 1 });
    const { lines } = await briefOf(id);
    const acting = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
    assert.equal(lines.length, hostile.length);
    assert.ok(lines.every(({ text }) => !acting.test(text)));
    assert.equal(lines[7]?.text, 'error: over');
    const textOf = async (accept: string): Promise<string[]> =>
      (await alice.api.get(`${path}/builds/${id}/brief`, { as: alice.credentials, headers: { accept } })).text.split(
        '\n',
      );
    const text = await textOf('text/plain');
    assert.ok(text.every((line) => !acting.test(line)));
    assert.equal(text.filter((line) => line === 'To reproduce it:').length, 1);
    const markdown = await textOf('text/markdown');
    assert.ok(markdown.every((line) => !acting.test(line)));
    const fences = markdown.filter((line) => /^`{9}(?:text)?$/.test(line));
    assert.ok(fences.length > 0 && fences.length % 2 === 0);
    let isQuoted = false;
    for (const line of markdown) {
      if (/^`{9}/.test(line)) isQuoted = !isQuoted;
      else if (!isQuoted) assert.doesNotMatch(line, /red|reversed|# Heading/);
    }
  });

  test('of a passed build have no lines, and of one that is not there 404', async () => {
    await fresh();
    const brief = await briefOf(await ran(green));
    assert.deepEqual([brief.step, brief.lines], [null, []]);
    assert.equal((await alice.get(`${path}/builds/1/brief`)).status, 404);
    const bob = await service.user();
    assert.equal((await bob.get(`${path}/builds/${await red('x')}/brief`)).status, 404);
  });

  test('a diff has the lines that differ, with three equal ones around', async () => {
    await fresh();
    const lines = Array.from({ length: 40 }, (_, at) => `line ${at + 1} took ${at} ms`);
    const first = await ran(lines.join('\n'));
    const later = lines.map((line) => line.replace(/\d+ ms/, '7 ms')).toSpliced(19, 1, 'error: shut', 'really');
    const id = await ran(later.join('\n'), { status: 1 });
    const { record } = await alice.get(`${path}/builds/${id}/log/diff`);
    assert.deepEqual([record.with_id_str, record.complete], [first, true]);
    const hunks = record.hunks as { from: number; with_from: number; lines: Record<string, unknown>[] }[];
    assert.equal(hunks.length, 1);
    assert.deepEqual([hunks[0]?.from, hunks[0]?.with_from], [17, 17]);
    assert.deepEqual(
      hunks[0]?.lines.map(({ mark, number, with_number: other }) => [mark, number, other]),
      [
        [' ', 17, 17],
        [' ', 18, 18],
        [' ', 19, 19],
        ['-', null, 20],
        ['+', 20, null],
        ['+', 21, null],
        [' ', 22, 21],
        [' ', 23, 22],
        [' ', 24, 23],
      ],
    );
    assert.equal(hunks[0]?.lines[4]?.text, 'error: shut');
    const { record: same } = await alice.get(`${path}/builds/${id}/log/diff?with=${id}`);
    assert.deepEqual([same.hunks, same.complete], [[], true]);
    await fresh();
    assert.equal((await alice.get(`${path}/builds/${await red('x')}/log/diff`)).status, 404);
    assert.equal((await alice.get(`${path}/builds/${await red('x')}/log/diff?with=${first}`)).status, 404);
  });

  test('a diff of logs that both end elsewhere, or are empty', async () => {
    await fresh();
    const empty = await ran('');
    const one = await ran('a\nb\n', { status: 1 });
    const marksOf = async (id: string, other: string): Promise<string[]> => {
      const { record } = await alice.get(`${path}/builds/${id}/log/diff?with=${other}`);
      return (record.hunks as { lines: { mark: string; text: string }[] }[]).flatMap((hunk) =>
        hunk.lines.map(({ mark, text }) => mark + text),
      );
    };
    assert.deepEqual(await marksOf(one, empty), ['+a', '+b']);
    assert.deepEqual(await marksOf(empty, one), ['-a', '-b']);
    const more = await ran('a\nb\nc', { status: 1 });
    assert.deepEqual(await marksOf(more, one), [' a', ' b', '+c']);
  });
});
