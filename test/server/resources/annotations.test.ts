import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { storeBuildAnnotations } from '../../../src/server/lifecycle/build-annotations.ts';
import { annotationIn } from '../../../src/server/streams/annotations.ts';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { forgetOldLogs } from '../../../src/server/streams/retention.ts';
import { most } from '../../../src/shared/domain/bounds.ts';
import type { Annotation } from '../../../src/shared/records/build.ts';
import { assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { ScriptedRunner } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

describeService('the annotations of a build', (service) => {
  let runner: ScriptedRunner;
  let alice: User;
  before(async () => {
    runner = await ScriptedRunner.start(service.store);
    alice = await service.user();
  });
  after(() => runner.dispatch.close());

  const annotations = async (path: string): Promise<Annotation[]> =>
    (await alice.get(`${path}/annotations`)).response as Annotation[];
  const pack = async (id: bigint): Promise<void> => {
    const { db, blobs, searches } = service.store;
    await packLog(db, blobs, id);
    await storeBuildAnnotations({ db, blobs, searches }, id);
  };

  test('are its failed tests with a line, and the commands in its log, before and after it is packed', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    assert.deepEqual(await annotations(path), []);
    const named = { class: 'c', suite: 's', durationMs: 1, message: '' };
    const tests = [
      { ...named, name: 'opens', file: 'gate.c', line: 7, state: 'failed', message: 'shut\n\u202eno' },
      { ...named, name: 'has no line', file: 'gate.c', state: 'failed' },
      { ...named, name: 'passes', file: 'gate.c', line: 9, state: 'passed' },
    ] as const;
    const batch = { claim: task.order.claim, start: 0, tests: [...tests], isLast: true };
    assert.deepEqual(await runner.dispatch.tests(runner.self, batch), { taken: true });
    await task.writeLog(
      'fine\n\x1b[31m::error file=src/a.c,line=3,endLine=4,title=Bad::<b>it</b> broke%0Awholly\x1b[0m\n',
    );
    await task.writeLog('src/b.c:5:1: error: expected ;\n::warning col=2,line=8,file=x.ts::careful\r\n');
    await task.writeLog(
      '  ::error file=a,line=1::indented\n::error file=a,line=one::no number\n::notice line=3::no file\n',
    );
    const none = { end_line: null, title: null };
    const expected = [
      { ...none, level: 'error', file: 'gate.c', line: 7, title: 'opens', message: 'shut\n\ufffdno', log_line: null },
      {
        level: 'error',
        file: 'src/a.c',
        line: 3,
        end_line: 4,
        title: 'Bad',
        message: '<b>it</b> broke\nwholly',
        log_line: 2,
      },
      { ...none, level: 'warning', file: 'x.ts', line: 8, message: 'careful', log_line: 4 },
    ];
    assert.deepEqual(await annotations(path), expected.slice(0, 1), 'the log is read at its end');
    await task.exit(1);
    assert.deepEqual(await annotations(path), expected);
    await pack(id);
    assert.deepEqual(await annotations(path), expected);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const { text } = await tab.get(`/ui${path}`);
    assert.match(text, /<h2>2 annotations<\/h2>/);
    assert.ok(text.includes(`<a href="/ui${path}?from=2#L2"><code>src/a.c:3–4</code></a>`), text);
    assert.ok(text.includes('&lt;b&gt;it&lt;/b&gt; broke') && !text.includes('<b>it'));
    assert.ok(!text.includes('\u202e'));
    const mallory = await service.user();
    assertNotFound(await mallory.get(`${path}/annotations`));
    const { db } = service.store;
    await forgetOldLogs(db, 1, Date.now() + 3 * 24 * 60 * 60 * 1000);
    assert.deepEqual(await annotations(path), expected.slice(0, 1), 'a deleted log has none');
  });

  test('are also what compilers say, if the suite wants them', async () => {
    const { project, task, path, id } = await runningBuild(alice, runner, { annotations: 'compiler' });
    await task.writeLog('src/b.c:5:1: error: expected ;\nb.rs:9: fatal error: gone\nb.c:5:1: warning: unused\n');
    await task.writeLog('12:30:01: error: a time\n::notice file=n,line=1::noted\nhttp://x:80: error: no file\n');
    await task.exit(1);
    await pack(id);
    const found = (await annotations(path)).map(({ level, file, line, message, log_line: at }) =>
      [level, file, line, message, at].join(' '),
    );
    assert.deepEqual(found, ['error src/b.c 5 expected ; 1', 'error b.rs 9 gone 2', 'notice n 1 noted 5']);
    const [suite] = (await alice.get(`/projects/${project.id}/suites`)).response as { id_str: string }[];
    const address = `/projects/${project.id}/suites/${suite?.id_str}`;
    assertWrongFields(await alice.put(address, { annotations: 'all' }), { annotations: 'invalid_format' });
    assert.equal((await alice.put(address, { annotations: '' })).record.annotations, '');
  });

  test('are bounded, and what goes beyond says so', async () => {
    const { task, path, id } = await runningBuild(alice, runner);
    const long = 'é'.repeat(5000);
    await task.writeLog(`::error file=a,line=1,title=${long}::${long}\n`.repeat(most.annotations + 50));
    await task.exit(1);
    await pack(id);
    const found = await annotations(path);
    assert.equal(found.length, most.annotations + 1);
    assert.ok(Buffer.byteLength(JSON.stringify(found)) < 500_000);
    const { file, message, log_line } = found.at(-1) ?? assert.fail();
    assert.deepEqual([file, log_line], [null, null]);
    assert.match(message, /^There are more\./);
  });
});

test('lines of logs are read as annotations, whatever stands in them', () => {
  const at = (line: string) => annotationIn(line, 1);
  assert.equal(at('::error file=a,line=0::x'), undefined);
  assert.equal(at('::error file=a,line=1'), undefined);
  assert.equal(at('::error file=,line=1::x'), undefined);
  assert.equal(at('::fatal file=a,line=1::x'), undefined);
  assert.equal(at(`::error ${','.repeat(16_000)}`), undefined);
  const odd = at('::error file=a%2Cb\u202e,line=12,endLine=3,title=t%3A%0A::%250A \u0007\u2028.');
  assert.deepEqual(odd, {
    level: 'error',
    file: 'a,b\ufffd',
    line: 12,
    endLine: null,
    title: 't:\ufffd',
    message: '%0A \ufffd\ufffd.',
    logLine: 1,
  });
});
