import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { StoreAwayError } from '../../src/runner/failures.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { StepPoint, SuiteOrder } from '../../src/shared/protocol/index.ts';
import { Blobs } from '../support/caching.ts';
import { temporaryFolder } from '../support/databases.ts';
import { FilesRunner } from '../support/files-runner.ts';
import { lacks } from '../support/machine.ts';

const stepsOf = (...commands: string[]): SuiteOrder['steps'] =>
  commands.map((command, at) => ({ name: `s${at}`, command, when: 'passed' }));
const resume = { mostBytes: 1024 ** 2 };

/** Points that one runner sends, and builds of another runner that go on there. */
describe('points at which builds go on', { skip: lacks('root', 'tun') }, () => {
  let folder: string;
  let sandboxes: Sandboxes;
  let runners = 0;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
  });
  after(async () => {
    await sandboxes.close();
    await removeTree(folder);
  });
  const open = (blobs = new Blobs()): Promise<FilesRunner> =>
    new FilesRunner(join(folder, `runner-${(runners += 1)}`), sandboxes, blobs).open();
  /** The last step waits for the points, since a build that is over sends none. */
  const sent = async (runner: FilesRunner, steps: SuiteOrder['steps'], more: Partial<SuiteOrder> = {}) => {
    const waiting = [...steps, { name: 'last', command: 'sleep 4', when: 'passed' as const }];
    const build = await runner.build('', { steps: waiting, resume, ...more });
    return { ...build, point: runner.points.at(-1) };
  };
  const from = (point: StepPoint | undefined, changes: Partial<StepPoint> = {}, name = '901'): Partial<SuiteOrder> => {
    const { digest, step, done, facts } = { ...(point ?? assert.fail('there is no point')), ...changes };
    const files = { name, digest, bytes: 1 };
    return { from: { step, build: '5', point: { files, done, facts, earlierMs: 60_000 } } };
  };
  const began = (step: string): string => `This starts at the step ${step}, with the files and variables of build 5.\n`;
  const changed =
    'This starts at the first step: the steps before last, the image or the variables are not what they were.\n';

  test('have everything that the steps left, wherever they left it', async () => {
    const runner = await open();
    const make = `mkdir -p a/b ~/h; echo one >a/b/f; ln a/b/f hard; ln -s /etc/passwd ~/h/link; mkfifo pipe
      rm -r tracked; chmod 4750 a/b/f; chmod 700 .; touch -d 2001-02-03 a/b; echo t >/tmp/t; chmod 600 /tmp/t
      echo X=plain >$HEADRACE_ENV; echo "Y=quite secret" >$HEADRACE_SECRET_ENV`;
    const look = `LC_ALL=C; for d in . ~ /tmp; do (cd $d; pwd; find . -type d -printf '%p d %m %u\\n' -o -printf '%p %y %m %n %l %u\\n' | sort); done
      stat -c %y a/b; cat hard a/two /tmp/t; echo "$X $Y"`;
    const all = [...stepsOf(make, 'true; echo two >>a/two'), { name: 'last', command: look, when: 'passed' as const }];
    const whole = await runner.build('', { steps: all });
    const { point } = await sent(runner, all.slice(0, 2));
    assert.deepEqual([point?.step, point?.done.map(({ state }) => state)], ['last', ['passed', 'passed']]);
    const other = await open(runner.blobs);
    const resumed = await other.build('', { steps: all, ...from(point) });
    assert.deepEqual(resumed.outcome, { kind: 'exited', status: 0 }, resumed.said);
    assert.equal(resumed.said, began('last') + whole.text.replace('quite secret', '[masked]'));
    assert.deepEqual(
      resumed.states.map(({ state, earlier = 0, line }) => [state, earlier, line === undefined]),
      [
        ['passed', 60_000, true],
        ['passed', 60_000, true],
        ['passed', 0, false],
      ],
    );
    // It is lost as well, and its own point stands on the first one.
    const third = await open(runner.blobs);
    const again = [...all.slice(0, 2), ...stepsOf('echo three >>a/two')];
    const second = await sent(other, again, from(point, { step: 's0' }));
    assert.match(second.said, /^This starts at the first step: the steps before s0/, 'another step than it says');
    const named = again.map((step, at) => ({ ...step, name: `n${at}` }));
    const renamed = await sent(other, named, from(point, { step: 'n2' }));
    assert.match(renamed.said, /^This starts at the first step/, 'a renamed step is another one');
    const write = { name: 'last', command: 'echo three >>a/two', when: 'passed' as const };
    const chained = await sent(other, again.with(2, write), from(point, {}, '902'));
    assert.match(chained.said, new RegExp(`^${began('last')}`));
    const read = { name: 'last2', command: 'cat hard a/two', when: 'passed' as const };
    const final = [...again.with(2, write), read];
    const last = await third.build('', { steps: final, ...from(chained.point, { step: 'last2' }, '903') });
    assert.equal(last.text, 'one\ntwo\nthree\n', last.said);
  });

  test('count only if nothing before them has changed', async () => {
    const runner = await open();
    const steps = stepsOf('echo one >f', 'echo two >>f');
    const { point } = await sent(runner, steps, { environment: { A: '1', HEADRACE_ATTEMPT: '1' } });
    const tried = async (changes: Partial<SuiteOrder>, more = from(point)): Promise<string> => {
      const all = [...steps, { name: 'last', command: 'cat f', when: 'passed' as const }];
      const other = await open(runner.blobs);
      const { said } = await other.build('', {
        steps: all,
        environment: { A: '1', HEADRACE_ATTEMPT: '2' },
        ...changes,
        ...more,
      });
      return said;
    };
    assert.equal(await tried({}), `${began('last')}one\ntwo\n`);
    assert.equal(await tried({ environment: { A: '2' } }), `${changed}one\ntwo\n`);
    assert.equal(await tried({ sha: 'd'.repeat(40) }), `${changed}one\ntwo\n`);
    assert.equal(await tried({ isFork: true }), `${changed}one\ntwo\n`);
    assert.equal(await tried({ source: { projectId: '8', repositoryUrl: '' } }), `${changed}one\ntwo\n`);
    const edited = [...stepsOf('echo 1 >f', 'echo 2 >>f'), { name: 'last', command: 'cat f', when: 'passed' as const }];
    assert.equal(await tried({ steps: edited }), `${changed}1\n2\n`);
  });

  test('that are damaged, gone or nonsense are not used, and the build begins at its first step', async () => {
    const runner = await open();
    const { point } = await sent(runner, stepsOf('echo one >f'));
    const good = runner.blobs.all.get(point?.digest ?? '') ?? assert.fail();
    const steps = [...stepsOf('echo one >f'), { name: 'last', command: 'cat f', when: 'passed' as const }];
    const unusable =
      'This starts at the first step: the files that the steps before last left in build 5 cannot be used.\none\n';
    const tampered = Buffer.from(good);
    tampered[tampered.length >> 1] = (tampered[tampered.length >> 1] ?? 0) ^ 1;
    for (const content of [tampered, Buffer.from('no archive'), undefined]) {
      const blobs = new Blobs();
      if (content) blobs.all.set(point?.digest ?? '', content);
      const { said } = await (await open(blobs)).build('', { steps, ...from(point) });
      assert.equal(said, unusable);
    }
    for (const facts of ['', '{', 'null', '[]'])
      assert.match(
        (await (await open(runner.blobs)).build('', { steps, ...from(point, { facts }) })).said,
        /^This starts at the first step: .*\none\n$/,
      );
    const away = await open();
    away.blobs.read = async () => Promise.reject(new StoreAwayError('away'));
    assert.equal((await away.build('', { steps, ...from(point, {}, '904') })).said, unusable);
  });

  test('never delay or change the build that sends them', async () => {
    const runner = await open();
    const steps = stepsOf('echo one >f; echo first', 'cat f', 'echo over');
    const plain = await runner.build('', { steps });
    assert.deepEqual([runner.points, runner.blobs.all.size], [[], 0], 'a build that does not ask sends nothing');

    runner.blobs.onStore = async () => Promise.reject(new StoreAwayError('away'));
    const away = await sent(runner, steps);
    assert.deepEqual([away.outcome, away.text, away.point], [plain.outcome, plain.text, undefined]);
    assert.match(runner.logged.join('\n'), /the files of a step are not stored for a next attempt: away/);

    // The store takes what it is sent, but does not answer until the build is over.
    const stuck = Promise.withResolvers<void>();
    runner.blobs.onStore = () => stuck.promise;
    const slow = runner.build('', { steps: [...steps, ...stepsOf('sleep 2')], resume });
    setTimeout(() => stuck.resolve(), 12_000);
    assert.equal((await slow).text, plain.text);
    assert.deepEqual(runner.points, [], 'what arrives after the end is not named');

    runner.blobs.onStore = async () => {};
    const before_ = runner.blobs.all.size;
    const large = await sent(runner, stepsOf('head -c 2000000 /dev/urandom >large', 'rm large'));
    assert.deepEqual(
      [large.outcome, large.point],
      [plain.outcome, undefined],
      'after one that is too large, there is none',
    );
    assert.equal(runner.blobs.all.size, before_);
  });

  test('are not made where a process stays, nor after a failure', async () => {
    const runner = await open();
    const busy = await sent(runner, stepsOf('sleep 1000 & true', 'true'));
    assert.equal(busy.point, undefined);
    const failed = await sent(runner, [...stepsOf('false'), { name: 'a', command: 'sleep 2', when: 'always' }]);
    assert.equal(failed.point, undefined);
    const skipped = await sent(runner, [...stepsOf('true'), { name: 'b', command: 'true', when: 'failed' }]);
    assert.deepEqual(
      skipped.point?.done.map(({ state }) => state),
      ['passed', 'skipped'],
    );
  });
});
