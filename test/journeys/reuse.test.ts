import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';

/** A real runner and a real repository: what has the same inputs is not run again. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });
  const buildOf = async (ref: string, form: Record<string, string> = {}): Promise<Item> => {
    const request = await project.api().post(`${project.path}/build_requests`, { commit_ref: ref, ...form });
    await project.end(request);
    const builds = await project.api().get<Item[]>(`${project.path}/build_requests/${request.id_str}/builds`);
    const [build] = builds;
    return build ?? assert.fail('nothing was built');
  };

  test('squash merges and reverts are answered at once, and nothing but inputs is there [promise: reuse]', async (t) => {
    const command =
      'git log --format=%s; git status --porcelain; env | grep ^HEADRACE_ | cut -d= -f1 | sort; cat greeting > out';
    await project.suite(t, 'unit', command, { reuse: 'on', 'artifacts[]': 'out' });
    const { repository } = project;
    const before = await repository.commit({ files: { greeting: 'hello\n' } });
    const first = await buildOf(before);
    assert.equal(first.build_state, 'passed');
    const log = await project.log(first);
    assert.doesNotMatch(log, /Begin/, 'no history is there');
    assert.doesNotMatch(log, /HEADRACE_(COMMIT|REF|BRANCH|BUILD_ID|ATTEMPT|EVENT)/);
    assert.match(log, /HEADRACE_SUITE/);
    // The last one's files again, in another commit: as a revert or a squash merge has them.
    await repository.commit({ files: { greeting: 'changed\n' } });
    const reverting = await repository.commit({ files: { greeting: 'hello\n' } });
    const reverted = await buildOf(reverting);
    assert.deepEqual([reverted.build_state, reverted.reused_from_id_str], ['passed', first.id_str]);
    assert.match(await project.log(reverted), new RegExp(`^Not run: .* build ${first.id_str},[^\n]*\n$`));
    const of = `${project.path}/builds/${reverted.id_str}`;
    const [artifact] = await project.api().get<Item[]>(`${of}/artifacts`);
    assert.equal(await project.api().text(`${of}/artifacts/${artifact?.id_str}`), 'hello\n');
    // What is known needs no fetch.
    assert.equal((await buildOf(before)).reused_from_id_str, first.id_str);
    assert.equal((await buildOf(before, { reuse: 'false' })).reused_from_id, null);
    const changed = await buildOf(await repository.commit({ files: { greeting: 'hellp\n' } }));
    assert.equal(changed.reused_from_id, null, 'another byte');
  });

  test('only files that match count, and variables that matter', async (t) => {
    const more = { reuse: 'on', 'inputs[]': 'src', 'ignore_variables[]': 'NOISE' };
    const suite = await project.suite(t, 'some', 'cat src/a README', more);
    const { repository } = project;
    const first = await buildOf(await repository.commit({ files: { 'src/a': 'a\n', README: 'one\n' } }));
    assert.equal(first.build_state, 'passed', await project.log(first));
    const other = await buildOf(await repository.commit({ files: { README: 'two\n' } }));
    assert.equal(other.reused_from_id_str, first.id_str);
    assert.equal((await buildOf(await repository.commit({ files: { 'src/a': 'b\n' } }))).reused_from_id, null);
    await project.variable(suite, 'NOISE', 'one');
    assert.equal((await buildOf('main')).reused_from_id, null, 'that it is there counts');
    const { id_str: variable } =
      (await project.api().get<Item[]>(`${project.path}/suites/${suite}/environment_variables`))[0] ?? assert.fail();
    await project.api().put(`${project.path}/suites/${suite}/environment_variables/${variable}`, { content: 'two' });
    assert.notEqual((await buildOf('main')).reused_from_id, null);
  });
});
