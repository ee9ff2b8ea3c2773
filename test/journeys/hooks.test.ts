import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { deliver, sign, type Hook, type Sent } from '../server/inbound-hooks/forge.ts';
import { github, gitlab, center } from '../server/inbound-hooks/payloads.ts';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';

/** A forge calls, and what it tells of is fetched from a real git host and built. */
describe('what a forge tells of', () => {
  onOneDatabase((database) => {
    let installation: Installation;
    let project: Project;
    before(async () => {
      installation = await startInstallation(database);
      project = await installation.project();
    });
    const make = async (provider: string): Promise<Hook> =>
      (await project.api().post(`${project.path}/hooks`, { provider })) as unknown as Hook;
    /** As a forge does; then waits until the request is over. */
    const tell = async (hook: Hook, sent: Sent): Promise<Item> => {
      const answer = await deliver(installation.serving().api, { id: BigInt(hook.id_str) }, sent);
      assert.equal(answer.status, 202, answer.text);
      return answer.record;
    };
    const built = async (told: Item): Promise<Item> => project.end({ id_str: String(told['build_request_id_str']) });
    /** The names that this host has, in the place of those of the examples. */
    const own = <T extends object>(payload: T): T => {
      const repository = { id: 1, full_name: 'app', ssh_url: installation.host.url('app.git') };
      return { ...payload, repository, project: { ...repository, git_ssh_url: repository.ssh_url } };
    };

    test('is built: a branch, a tag, and pull requests that nothing but their refs lead to', async (t) => {
      const suite = await project.suite(
        t,
        'unit',
        'echo "$HEADRACE_EVENT/$HEADRACE_PULL_REQUEST/$HEADRACE_TARGET_BRANCH"; echo "secret: $TOKEN"; cat what',
      );
      await project.variable(suite, 'TOKEN', 'only-for-our-own-commits');
      const { repository } = project;
      const main = await repository.commit({ files: { what: 'main' } });
      await repository.tag('v1', main, 'with a message');
      const logOf = async (request: Item): Promise<string> => {
        const commit = { id_str: String(request['commit_id_str']) };
        const all = await project.builds(commit);
        assert.equal(request['build_state'], 'passed', await project.fetchLog(request));
        return project.log(all.at(0));
      };

      const toldOfFork = 'This build comes from a fork, so it does not get: TOKEN\\.\n';
      const hook = await make('github');
      const pushed = await built(await tell(hook, sign.github(hook.secret, 'push', own(github.push({ sha: main })))));
      assert.match(await logOf(pushed), /^push\/\/main\nsecret: \[?[^\n]+\nmain$/);
      const tag = own({ ...github.push({ ref: 'refs/tags/v1', sha: main }), after: await repository.sha('v1') });
      assert.match(await logOf(await built(await tell(hook, sign.github(hook.secret, 'push', tag)))), /^tag\/\/\n/);

      /** A commit on top of main that only this ref leads to. */
      const put = async (ref: string, what: string): Promise<string> => {
        const sha = await repository.commit({ on: 'scratch', after: main, files: { what } });
        await repository.git(['update-ref', ref, sha]);
        await repository.deleteBranch('scratch');
        return sha;
      };
      const [gitlabHook, centerHook] = [await make('gitlab'), await make('bitbucket')];
      const pull = await put('refs/pull/7/head', 'pull');
      const merge = await put('refs/merge-requests/8/head', 'merge');
      const from = await put('refs/pull-requests/9/from', 'from');
      const merged = own(gitlab.merge({ sha: merge, number: 8, head: 'stranger/code' }));
      const centered = center.pull({ sha: from, number: 9, head: 'stranger/code' });
      const strangers = { ...centered, pullRequest: { ...centered.pullRequest, toRef: { id: 'refs/heads/main' } } };
      const cases: [Hook, Sent, string][] = [
        [
          hook,
          sign.github(hook.secret, 'pull_request', own(github.pull({ sha: pull, head: 'stranger/code' }))),
          '7/main',
        ],
        [gitlabHook, sign.gitlabSigned(gitlabHook.secret, 'Merge Request Hook', merged), '8/main'],
        [centerHook, sign.bitbucket(centerHook.secret, 'pr:opened', strangers), '9/main'],
      ];
      for (const [its, sent, place] of cases) {
        const request = await built(await tell(its, sent));
        const said = await logOf(request);
        assert.match(
          said,
          new RegExp(`^${toldOfFork}pull_request/${place}\nsecret: \n`),
          'a stranger’s gets no secret',
        );
        assert.equal(request['from_fork'], true);
      }

      // A payload that claims that a stranger's commit is ours does not make it ours.
      const claim = await put('refs/pull/10/head', 'claim');
      const claimed = own(github.pull({ sha: claim, number: 10 }));
      const request = await built(await tell(hook, sign.github(hook.secret, 'pull_request', claimed)));
      assert.match(await logOf(request), /\nsecret: \n/);
      assert.equal(request['from_fork'], true);
      const asPush = own(github.push({ sha: claim }));
      assert.equal((await built(await tell(hook, sign.github(hook.secret, 'push', asPush))))['from_fork'], true);
      // And once it is merged, it is.
      await repository.overwrite('main', claim);
      const ours = await built(await tell(hook, sign.github(hook.secret, 'push', asPush)));
      assert.equal(ours['from_fork'], false);
    });

    test('is built once where a push and a pull request bring it', async (t) => {
      await project.suite(t, 'once', 'echo "built for $HEADRACE_EVENT"');
      const { repository } = project;
      const sha = await repository.commit({ on: 'topic', files: { what: 'topic' } });
      await repository.git(['update-ref', 'refs/pull/11/head', sha]);
      const hook = await make('github');
      const push = sign.github(hook.secret, 'push', own(github.push({ ref: 'refs/heads/topic', sha })));
      const pull = sign.github(hook.secret, 'pull_request', own(github.pull({ sha, number: 11 })));
      const told = [await tell(hook, push), await tell(hook, pull)];
      const [first, second] = await Promise.all(told.map(built));
      assert.deepEqual([first?.['build_state'], second?.['build_state']], ['passed', 'passed']);
      assert.deepEqual([first?.['joined_to_id_str'], second?.['joined_to_id_str']], ['', first?.['id_str']]);
      const all = await project.builds({ id_str: String(first?.['commit_id_str']) });
      assert.deepEqual(await Promise.all(all.map((build) => project.log(build))), ['built for push\n']);
      if (second) assert.match(await project.fetchLog(second), /Joined to build request \d+, of the push to topic/);
    });

    test('and is gone by the time it is fetched is told in the log of the fetch', async () => {
      const hook = await make('github');
      const gone = own(github.push({ ref: 'refs/heads/gone', sha: 'd'.repeat(40) }));
      const request = await built(await tell(hook, sign.github(hook.secret, 'push', gone)));
      assert.equal(request['build_state'], 'errored');
      assert.match(
        await project.fetchLog(request),
        /d{40} is no longer in .*, and “refs\/heads\/gone” does not contain/,
      );
    });

    test('is not lost once it was acknowledged, though the server is killed', async (t) => {
      await project.suite(t, 'unit', 'true');
      const hook = await make('github');
      const sha = await project.repository.commit();
      const send = (id: string): Sent => sign.github(hook.secret, 'push', own(github.push({ sha })), id);
      const accepted: string[] = [];
      let isKilled = false;
      const sending = Array.from({ length: 4 }, async (_, line) => {
        for (let count = 0; !isKilled; count += 1) {
          const id = `${line} ${count}`;
          const answer = await tell(hook, send(id)).catch(() => undefined);
          if (answer) accepted.push(id);
          if (accepted.length >= 20 && !isKilled) {
            isKilled = true;
            await installation.killServer();
          }
        }
      });
      await Promise.all(sending);
      await installation.startServer();
      assert.ok(accepted.length >= 20);
      const deliveries = await project.api().get<Item[]>(`${project.path}/hooks/${hook.id_str}/deliveries?limit=1000`);
      const requests = new Set(deliveries.map((one) => one['build_request_id_str']));
      assert.ok(requests.size >= accepted.length && !requests.has(''));
      // What was sent again by the forge, because it heard no answer or twice, is the same still.
      const again = await tell(hook, send(accepted[0] ?? ''));
      assert.ok(requests.has(again['build_request_id_str']));
      for (const id of requests) {
        assert.equal((await project.end({ id_str: String(id) }))['build_state'], 'passed');
      }
    });
  }, 'postgres');
});
