import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { checkFile } from '../../../src/shared/documents/file.ts';
import { readFile, RefusedError } from '../../../src/shared/documents/mistakes.ts';
import { inVariant } from '../../../src/shared/domain/matrix.ts';
import type { Record_ } from '../../support/client.ts';
import { assertWrongFields } from '../../support/expect.ts';
import { aCommit, describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

test('a variant’s values stand for its names alone, and are not read again', () => {
  const variant = 'A=1 B=$A __proto__=x AB=2';
  assert.equal(inVariant('$A ${A}x $AB $B ${B} $__proto__', variant), '1 1x 2 $A $A x');
  for (const text of ['$C', '$constructor', '${toString}', '$', '${A', '$1', '$$', 'A'])
    assert.equal(inVariant(text, variant), text);
});

describeWithRunner('a matrix that chooses', (service, runner) => {
  let alice: User;
  let project: Record_;
  let path: string;
  before(async () => {
    alice = await service.user();
  });
  const fresh = async (fields: Record<string, string> = {}): Promise<void> => {
    project = await alice.createProject(fields);
    path = `/projects/${project.id}`;
  };
  const send = (json: object) => service.api.post(`${path}/suites`, { as: alice.credentials, json });
  const suite = {
    name: 'unit',
    command: 'make',
    matrix: ['NODE=20,22', 'OS=linux,arm'],
    image: 'docker.io/library/node:$NODE',
    tags: ['$OS', 'large'],
    artifacts: ['report-${NODE}.xml', '$OTHER/x'],
    services: [{ name: 'db-$NODE', image: 'docker.io/library/redis:${NODE}' }],
  };
  const waiting = async (): Promise<string[]> => {
    const jobs = service.store.db.read.selectFrom('jobs').innerJoin('builds', 'builds.id', 'jobs.subject_id');
    const rows = await jobs
      .select(['builds.variant', 'jobs.tags'])
      .where('builds.project_id', '=', project.id)
      .orderBy('jobs.id')
      .execute();
    return rows.map(({ variant, tags }) => `${variant}: ${tags}`);
  };

  test('has its values in images, tags, services and artifacts of each build', async () => {
    await fresh();
    const made = await send({ ...suite, tags: [] });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual([made.record.image, made.record.artifacts], [suite.image, suite.artifacts], 'as it was written');
    await alice.post(`${path}/build_requests`, { commit_ref: 'main' });
    await (await runner.take('fetch_commit')).fetched();
    const seen = [];
    for (let at = 0; at < 4; at += 1) {
      const task = await runner.take('run_suite');
      const { environment, image, services = [], artifacts } = task.order.work;
      seen.push([
        environment['NODE'],
        image?.reference,
        services[0]?.name,
        services[0]?.image?.reference,
        artifacts?.globs,
      ]);
      await task.exit(0);
    }
    const of = (node: string) => [
      node,
      `docker.io/library/node:${node}`,
      `db-${node}`,
      `docker.io/library/redis:${node}`,
      [`report-${node}.xml`, '$OTHER/x'],
    ];
    assert.deepEqual(seen, [of('20'), of('20'), of('22'), of('22')]);
  });

  test('has its values in the tags of what waits, also when they change, and of what waited for another', async () => {
    await fresh();
    const first = (await send({ name: 'first', command: 'x' })).record;
    const made = (await send({ ...suite, services: [], image: '' })).record;
    const later = { ...suite, name: 'later', matrix: ['OS=mips'], services: [], image: '', needs: [first.id_str] };
    assert.equal((await send(later)).status, 201);
    await alice.post(`${path}/build_requests`, { commit_ref: 'main' });
    await (await runner.take('fetch_commit')).fetched();
    const four = (more: string) =>
      ['20', '22'].flatMap((node) =>
        ['linux', 'arm'].map((os) => `NODE=${node} OS=${os}: ${[os, more].toSorted().join()}`),
      );
    await (await runner.take('run_suite')).exit(0);
    assert.deepEqual(await waiting(), [...four('large'), 'OS=mips: large,mips']);
    await service.api.put(`${path}/suites/${made.id}`, { as: alice.credentials, json: { tags: ['$OS', 'zz'] } });
    assert.deepEqual((await waiting()).slice(0, 4), four('zz'));
    await runner.assertIdle();
  });

  test('is judged for each variant as if it stood there', async () => {
    await fresh();
    const wrong: [object, Record<string, string>][] = [
      [
        { matrix: [] },
        {
          image: 'invalid_format',
          tags: 'invalid_format',
          'services[0][image]': 'invalid_format',
          'services[0][name]': 'invalid_format',
        },
      ],
      [{ image: 'docker.io/$MISSING' }, { image: 'invalid_format' }],
      [{ matrix: ['NODE=20', 'OS=a/b'] }, { tags: 'invalid_format' }],
      [
        { matrix: ['NODE=20,a:b', 'OS=x'] },
        { image: 'invalid_format', 'services[0][name]': 'invalid_format', 'services[0][image]': 'invalid_format' },
      ],
      [
        { matrix: ['NODE=localhost', 'OS=x'], services: [{ ...suite.services[0], name: '$NODE' }] },
        { 'services[0][name]': 'invalid_format' },
      ],
      [{ services: [...suite.services, { name: 'db-20', image: 'x' }] }, { 'services[1][name]': 'already_exists' }],
      [{ matrix: ['NODE=20', 'OS=../..'], tags: [], artifacts: ['$OS/etc'] }, { artifacts: 'invalid_format' }],
      [{ tags: ['a}'] }, { tags: 'invalid_format' }],
    ];
    for (const [change, fields] of wrong) assertWrongFields(await send({ ...suite, ...change }), fields);
    const { record } = await send(suite);
    const put = (json: object) => service.api.put(`${path}/suites/${record.id}`, { as: alice.credentials, json });
    assertWrongFields(await put({ matrix: ['NODE=20'] }), { matrix: 'invalid_format' });
    assert.equal((await put({ matrix: ['NODE=24', 'OS=bsd'] })).status, 200);
    const file = await readFile(
      '[[suites]]\nname = "unit"\ncommand = "x"\nmatrix = ["A=1,B@D"]\nimage = "node:$A"\ntags = [\n"$A"]\n',
      '.headrace.toml',
      () => assert.fail(),
    );
    assert.throws(
      () => checkFile(file),
      (error) => {
        assert.ok(error instanceof RefusedError);
        assert.match(error.lines.join('\n'), /toml:5: suites\[unit\]\[image\] is not allowed with the values/);
        assert.match(error.lines.join('\n'), /suites\[unit\]\[tags\] is not allowed with the values/);
        return true;
      },
    );
  });

  test('puts nothing that is not allowed into a build that is older than the settings', async () => {
    await fresh();
    const { record } = await send({ name: 'unit', command: 'make', matrix: ['X=../../etc'] });
    const request = (await alice.post(`${path}/build_requests`, { commit_ref: 'main' })).record;
    await (await runner.take('fetch_commit')).fetched();
    await (await runner.take('run_suite')).exit(0);
    const json = { matrix: ['X=db'], services: [{ name: '$X', image: 'redis' }], artifacts: ['$X/log'] };
    assert.equal((await service.api.put(`${path}/suites/${record.id}`, { as: alice.credentials, json })).status, 200);
    await alice.post(`${path}/build_requests/${request.id}/rerun`);
    const again = await runner.take('run_suite');
    const { environment, services = [], artifacts } = again.order.work;
    assert.deepEqual([environment['X'], services[0]?.name, artifacts?.globs], ['../../etc', '$X', ['$X/log']]);
    await again.exit(0);
  });

  test('gives a branch’s file no runner that the project’s suites do not have [promise: branch-file]', async () => {
    await fresh({ config_file: '.headrace.toml' });
    await send({ ...suite, matrix: ['OS=linux', 'NODE=1'] });
    const onBranch = {
      ...aCommit,
      branches: ['topic'],
      branch: 'topic',
      ref: 'refs/heads/topic',
      defaultHead: 'none' as const,
    };
    const build = async (matrix: string, sha: string): Promise<string> => {
      const { record } = await alice.post(`${path}/build_requests`, { commit_ref: 'topic' });
      const text = `[[suites]]\nname = "unit"\ncommand = "x"\nmatrix = ["${matrix}"]\ntags = ["$OS"]\n`;
      const config = { text, path: '.headrace.toml', before: null };
      await (await runner.take('fetch_commit')).finish({ kind: 'fetched', commit: { ...onBranch, sha }, config });
      return (await alice.get(`${path}/build_requests/${record.id}/log.txt`)).text;
    };
    assert.match(await build('OS=linux,secret-runner', 'a'.repeat(40)), /\[tags\] names secret-runner/);
    assert.deepEqual(await waiting(), []);
    await build('OS=linux', 'b'.repeat(40));
    assert.deepEqual(await waiting(), ['OS=linux: linux']);
  });
});
