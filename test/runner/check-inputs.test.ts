import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { CheckInputsOrder, Outcome, RunnerInput, SuiteOrder } from '../../src/shared/protocol/index.ts';
import { CannotRunError } from '../../src/runner/cannot-run.ts';
import { checkInputs } from '../../src/runner/check-inputs.ts';
import { openCheckouts } from '../../src/runner/checkouts.ts';
import type { RunnerDeps, Task } from '../../src/runner/job-runner.ts';
import { openMachineInputs } from '../../src/runner/machine-inputs.ts';
import { runSuite } from '../../src/runner/run-suite.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { EnvironmentFileError } from '../../src/shared/domain/environment-file.ts';
import { temporaryFolder } from '../support/databases.ts';
import { longestWait } from '../support/pauses.ts';
import { createRepository } from '../support/repository.ts';
import { workplace, type Workplace } from './git/workplace.ts';

const { signal } = new AbortController();

/** Real git, work trees and builds of one runner. */
describe('the inputs of builds', () => {
  const folder = temporaryFolder();
  const cleanUps: (() => Promise<void>)[] = [];
  let place: Workplace;
  let sandboxes: Sandboxes;
  let deps: RunnerDeps;
  let variables: Record<string, string> = {};
  /** Work trees that were made. */
  const made: string[] = [];
  let asked: string[] = [];
  before(async () => {
    place = await workplace({ after: (cleanUp) => void cleanUps.push(cleanUp) });
    sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: 'none',
      isolation: 'required',
      log: () => {},
    });
    const { mirrors, project } = place;
    const counted = {
      checkout: (request: Parameters<typeof mirrors.checkout>[0]) => (
        made.push(request.sha),
        mirrors.checkout(request)
      ),
    };
    const waiting = { isStuck: () => false, hasCache: () => false, complete: async () => false };
    deps = {
      mirrors,
      checkouts: await openCheckouts(join(folder, 'checkouts'), counted, assert.fail),
      sandboxes,
      machine: openMachineInputs({ network: 'none', buildAllow: [], buildPaths: [] }),
      operatorVariables: () => variables,
      link: { access: async () => ({ privateKey: project.privateKey }) },
      images: {
        async lookUp({ reference }: { reference: string }, { service = '' }: { service?: string }) {
          asked.push(`${reference} ${service}`.trim());
          if (reference === 'none') throw new CannotRunError('image_not_found', 'it has no such image');
          return `sha256:${'a'.repeat(64)}`;
        },
      },
      dependencyCache: { take: async () => ({ mounts: [], directoriesAt: () => [], [Symbol.dispose]: () => {} }) },
      outbox: { begin: () => ({ ...waiting, [Symbol.asyncDispose]: async () => {} }) },
      log: () => {},
    } as unknown as RunnerDeps;
  });
  after(async () => {
    await sandboxes?.close();
    for (const cleanUp of cleanUps) await cleanUp();
    await removeTree(folder);
  });

  let count = 0;
  const taskOf = (changes: Partial<Task> = {}): Task => ({
    id: `claim-${(count += 1)}`,
    writeLog: () => {},
    signal,
    spans: { begin: () => {}, end: () => {}, report: () => [] },
    ...changes,
  });
  const sourceOf = () => ({ projectId: place.project.projectId, repositoryUrl: place.project.repositoryUrl });

  const check = async (
    order: Partial<CheckInputsOrder> & { sha: string },
  ): Promise<{ outcome: Outcome; inputs: RunnerInput[] }> => {
    asked = [];
    let told: Promise<RunnerInput[]> = Promise.resolve([]);
    const task = taskOf({ writeLog: () => assert.fail('it has no log'), onInputs: (inputs) => void (told = inputs) });
    const usual = { kind: 'check_inputs' as const, source: sourceOf(), isFork: false, environment: [] };
    const whole: CheckInputsOrder = { ...usual, ...order };
    const outcome = await checkInputs(deps, whole, task);
    return { outcome, inputs: await told };
  };
  const build = async (command: string, order: Partial<SuiteOrder> & { sha: string }) => {
    let told: Promise<RunnerInput[]> = Promise.resolve([]);
    const log: Buffer[] = [];
    const whole = {
      kind: 'run_suite',
      source: sourceOf(),
      isFork: false,
      isSealed: true,
      steps: [{ name: 'command', command, when: 'passed' }],
      environment: {},
      secrets: [],
      limits: { memoryBytes: 1024 ** 3, processes: 256, timeoutSeconds: longestWait / 1000 },
      software: [],
      prefixes: [],
      launches: [],
      ...order,
    } satisfies SuiteOrder;
    const task = taskOf({
      writeLog: (text) => void log.push(Buffer.from(text)),
      onInputs: (inputs) => void (told = inputs),
    });
    const outcome = await runSuite(deps, whole, task);
    return { outcome, inputs: await told, log: Buffer.concat(log).toString() };
  };
  const names = (inputs: readonly RunnerInput[]): string[] => inputs.map(({ kind, name }) => `${kind} ${name}`);

  test('are known before a build runs, without a work tree, and are what it reports at its end', async () => {
    const { repository } = place;
    const sha = await repository.commit({ files: { 'src/a': '1', 'docs/b': '1' } });
    variables = { MIRROR: 'one', STAGE: 'of the operator' };
    const inputs = ['src'];
    const before = await check({ sha, inputs, environment: ['STAGE', 'CI'] });
    assert.deepEqual(before.outcome, { kind: 'inputs' });
    assert.deepEqual(made, [], 'no work tree was made');
    assert.deepEqual(names(before.inputs).slice(-2), ['tree matching files', 'variable MIRROR']);
    const ran = await build('true', { sha, inputs, environment: { STAGE: 'test', CI: 'true' } });
    assert.deepEqual(ran.outcome, { kind: 'exited', status: 0 }, ran.log);
    assert.deepEqual(ran.inputs, before.inputs);
    const { mirrors } = deps;
    const mayLackParts = (): never => assert.fail('the work tree is here');
    deps.mirrors = { ...mirrors, mayLackParts };
    assert.deepEqual((await check({ sha, inputs, environment: ['STAGE', 'CI'] })).inputs, before.inputs);
    deps.mirrors = mirrors;
    const outside = await repository.commit({ files: { 'docs/b': '2' } });
    assert.deepEqual((await check({ sha: outside, inputs, environment: ['STAGE', 'CI'] })).inputs, before.inputs);
    const inside = await repository.commit({ files: { 'src/a': '2' } });
    assert.notDeepEqual((await check({ sha: inside, inputs, environment: ['STAGE', 'CI'] })).inputs, before.inputs);
    variables = { ...variables, MIRROR: 'two' };
    assert.notDeepEqual((await check({ sha, inputs, environment: ['STAGE', 'CI'] })).inputs, before.inputs);
  });

  test('have the parts that a work tree would lack', async () => {
    const { repository, host } = place;
    const library = await createRepository(join(host.folder, 'lib.git'));
    const named = await library.commit({ files: { lib: '1' } });
    const module = (url: string) => ({
      'deps/lib': { submodule: named },
      '.gitmodules': `[submodule "lib"]\n\tpath = deps/lib\n\turl = ${url}\n`,
    });
    const whole = await repository.commit({ files: module('../lib.git') });
    const own = await check({ sha: whole });
    assert.ok(!names(own.inputs).includes('tree missing parts'));
    const fork = await check({ sha: whole, isFork: true });
    assert.ok(names(fork.inputs).includes('tree missing parts'), 'a fork does not get it');
    const ran = await build('test ! -e deps/lib/lib', { sha: whole, isFork: true });
    assert.deepEqual(ran.outcome, { kind: 'exited', status: 0 }, ran.log);
    assert.deepEqual(fork.inputs, ran.inputs);
    const trees = made.length;
    assert.deepEqual((await check({ sha: whole, isFork: true, hasFiles: true })).inputs, own.inputs);
    assert.equal(made.length, trees, 'with files of another suite there is no work tree');
  });

  test('have the digests of images, which are only looked up', async () => {
    const sha = await place.repository.commit({ files: { a: 'images' } });
    const image = (reference: string) => ({ reference, accountId: '1' });
    const { inputs } = await check({
      sha,
      image: image('one'),
      services: [{ name: 'db', image: image('two') }, { name: 'own' }],
    });
    assert.deepEqual(asked.toSorted(), ['one', 'two db']);
    assert.deepEqual(
      inputs.filter(({ kind }) => kind === 'image'),
      ['build', 'service db'].map((name) => ({ kind: 'image', name, digest: 'a'.repeat(64) })),
    );
    assert.ok(names(inputs).includes('packages installed packages'), 'a service has no image');
    const inImage = await check({ sha, image: image('one') });
    assert.ok(!names(inImage.inputs).some((name) => name.startsWith('packages')));
  });

  test('are not known where the build could not begin', async () => {
    const sha = await place.repository.commit({ files: { a: 'failures' } });
    const failing = async (order: Partial<CheckInputsOrder> = {}) => {
      const { outcome, inputs } = await check({ sha, ...order });
      assert.deepEqual(inputs, []);
      return outcome;
    };
    assert.deepEqual(await failing({ image: { reference: 'none', accountId: '1' } }), {
      kind: 'unrunnable',
      reason: 'image_not_found',
    });
    assert.deepEqual(await failing({ sha: 'f'.repeat(40) }), { kind: 'unfetchable', reason: 'ref_not_found' });
    const usual = deps.operatorVariables;
    deps.operatorVariables = () => {
      throw new EnvironmentFileError('line 1: no name');
    };
    assert.deepEqual(await failing(), { kind: 'unrunnable', reason: 'environment_unreadable' });
    deps.operatorVariables = usual;
  });

  test('are all that a sealed build can find out: no history, ref, address or object besides', async () => {
    const { repository, project } = place;
    const before = await repository.commit({ message: 'SECRET', files: { secret: 'SECRET content' } });
    await repository.tag('SECRET-tag', before, 'SECRET');
    const sha = await repository.commit({ message: 'SECRET subject', files: { secret: null, a: 'x' } });
    const search = `
      set +e; git status --porcelain; git log --all --reflog --format=%H%s%an; git for-each-ref; git remote -v; git stash list
      git cat-file --batch-all-objects --batch-check | grep -c commit
      for one in ${before} ${sha} ${await repository.sha(`${before}:secret`)} HEAD^ FETCH_HEAD origin/main main SECRET-tag
      do git cat-file -e $one 2>/dev/null && echo "found $one"; done
      git cat-file --batch-all-objects --batch | grep -a SECRET
      ls .git/logs .git/hooks .git/objects/info/alternates .git/modules .git/FETCH_HEAD .git/packed-refs 2>/dev/null
      find .git -type f ! -name '*.pack' | xargs grep -la -e SECRET -e '${project.repositoryUrl}' -e ${before} -e ${sha}
      env | grep -e ${sha} -e 'SECRET '
      git rev-parse --verify HEAD >/dev/null && git diff --exit-code && echo "end of search"`;
    const { log, outcome } = await build(search, { sha });
    const [only, commits, ...rest] = log.trim().split('\n');
    assert.match(only ?? '', /^[0-9a-f]{40}Files of a buildHeadrace$/);
    assert.deepEqual([commits, rest], ['1', ['end of search']], log);
    assert.deepEqual(outcome, { kind: 'exited', status: 0 });
    const plain = await build('git log --format=%s', { sha, ...({ isSealed: undefined } as object) });
    assert.match(plain.log, /^SECRET subject$/m, 'a build of another suite sees the history as ever');
  });
});
