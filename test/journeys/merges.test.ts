import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { deliver, sign, type Hook } from '../server/inbound-hooks/forge.ts';
import { github } from '../server/inbound-hooks/payloads.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';

/** Pull requests that a forge tells of are merged by a real runner. */
describe('a pull request that is built as its merge', () => {
  onOneDatabase((database) => {
    let installation: Installation;
    let project: Project;
    let hook: Hook;
    before(async () => {
      installation = await startInstallation(database);
      project = await installation.project();
      await project.api().put(project.path, { pull_request_builds: 'merge', config_file: '.headrace.toml' });
      hook = (await project.api().post(`${project.path}/hooks`, { provider: 'github' })) as unknown as Hook;
    });
    const own = <T extends object>(payload: T): T => {
      const repository = { id: 1, full_name: 'app', ssh_url: installation.host.url('app.git') };
      return { ...payload, repository };
    };
    const tell = async (event: string, payload: object): Promise<Item> => {
      const sent = sign.github(hook.secret, event, own(payload));
      const { record } = await deliver(installation.serving().api, { id: BigInt(hook.id_str) }, sent);
      return project.end({ id_str: String(record['build_request_id_str']) });
    };
    const logOf = async (request: Item): Promise<string> => {
      assert.equal(request['build_state'], 'passed', await project.fetchLog(request));
      const all = await project.builds({ id_str: String(request['commit_id_str']) });
      return project.log(all.at(0));
    };
    const detailsOf = ({ id_str: id }: Item) =>
      project.api().get<{ merge: object | null }>(`${project.path}/build_requests/${id}/details`);

    test('sees both sides, and is merged again where its target has moved on', async (t) => {
      const { repository } = project;
      const command = [
        'echo "$HEADRACE_HEAD_SHA $HEADRACE_MERGE_BASE"',
        `git log -1 --format='%H %P'`,
        'echo "$HEADRACE_COMMIT"',
        'cat side && git status --porcelain && echo "secret: $TOKEN"',
      ].join('; ');
      const file = (says: string) => `[[suites]]\nname = "unit"\ncommand = '''echo ${says}; ${command}'''\n`;
      await project.variableOfAll(t, 'TOKEN', 'only-for-our-own-commits');
      const first = await repository.commit({ files: { '.headrace.toml': file('began'), side: 'began\n' } });
      await tell('push', github.push({ sha: first }));
      const head = await repository.commit({ on: 'topic', after: first, files: { side: 'topic\n' } });
      await repository.git(['update-ref', 'refs/pull/11/head', head]);
      const base = await repository.commit({ files: { '.headrace.toml': file('of the merge') } });
      const request = await tell('pull_request', github.pull({ sha: head, number: 11 }));
      const said = (await logOf(request)).split('\n');
      const merge = said[3] ?? '';
      assert.deepEqual(
        said,
        ['of the merge', `${head} ${base}`, `${merge} ${base} ${head}`, merge, 'topic', 'secret: [masked]', ''],
        'the file is the merge’s',
      );
      assert.match(await project.fetchLog(request), new RegExp(`Merged it into ${base}, as commit ${merge}`));
      assert.deepEqual((await detailsOf(request)).merge, { head, base, behind: false });

      const next = await repository.commit({ files: { other: 'next\n' } });
      await tell('push', github.push({ sha: next }));
      assert.deepEqual((await detailsOf(request)).merge, { head, base, behind: true });
      const { id_str: id } = await project.api().post(`${project.path}/build_requests/${request.id_str}/again`);
      const again = await project.end({ id_str: id });
      assert.ok((await logOf(again)).includes(`${head} ${next}\n`));
      assert.deepEqual(
        [again['event'], again['pull_request'], again['created_by']],
        ['pull_request', 11, `hook:${hook.id_str}`],
      );
    });

    test('names the files of a conflict, and gives a fork no secrets', async () => {
      const { repository } = project;
      const first = await repository.sha('main');
      const strange = await repository.commit({
        on: 'strange',
        after: first,
        files: { 'a\nb': 'strange\n', side: 'strange\n' },
      });
      await repository.git(['update-ref', 'refs/pull/12/head', strange]);
      await repository.deleteBranch('strange');
      const payload = github.pull({ sha: strange, number: 12, head: 'stranger/code' });
      const said = await logOf(await tell('pull_request', payload));
      assert.match(said, /\nstrange\nsecret: \n$/, 'its target is trusted, but not what it brings');
      const base = await repository.commit({ files: { 'a\nb': 'ours\n', side: 'ours\n' } });
      const request = await tell('pull_request', payload);
      assert.deepEqual([request['build_state'], request['failure_reason']], ['errored', 'merge_conflict']);
      const log = await project.fetchLog(request);
      const lines = [
        `Commit ${strange} cannot be merged into ${base}. These files conflict:`,
        String.raw`  "a\nb"`,
        '  side',
      ];
      assert.ok(log.includes(`\n${lines.join('\n')}\n`), log);
      assert.deepEqual((await detailsOf(request)).merge, { head: strange, base, behind: false });
    });
  });
});
