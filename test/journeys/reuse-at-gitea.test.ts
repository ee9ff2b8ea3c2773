import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { folderFor } from '../support/folders.ts';
import { startGitea, whyNoGitea, type Gitea, type GiteaItem } from '../support/gitea.ts';
import { startInstallation, type Installation, type Item } from '../support/installation.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';

/** What people do at a forge all day often gives a commit with files that were built before. It is not built again. */
onOneDatabase((database) => {
  let gitea: Gitea;
  let installation: Installation;
  let folder: string;
  before(async () => {
    if (whyNoGitea !== false) return;
    gitea = await startGitea(database);
    installation = await startInstallation(database, { HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' });
    folder = folderFor(database.afterwards);
  });

  async function until<T>(look: () => Promise<T>, isDone: (found: T) => boolean): Promise<T> {
    const began = Date.now();
    for (const wait = growingPauses(); ; await wait()) {
      const found = await look();
      if (isDone(found)) return found;
      assert.ok(Date.now() - began < longestWait, JSON.stringify(found));
    }
  }

  test('merges, reverts and tags at Gitea are answered by the builds before', { skip: whyNoGitea }, async () => {
    const { user } = gitea;
    const api = installation.api();
    const repository = `${user}/dam`;
    await gitea.ask('POST', '/user/repos', { name: 'dam', private: true, auto_init: true, default_branch: 'main' });
    const token = await gitea.token('write:repository', 'read:user');
    const forge = await api.post('/forges', { provider: 'gitea', url: gitea.url, token });
    // Otherwise a pull request joins its push, and there is nothing to reuse.
    const fields = { forge_id: forge.id_str, repository, build_twice: 'true' };
    const { id_str: id } = await api.post('/projects', fields);
    const path = `/projects/${id}`;
    await api.post(`${path}/suites`, { name: 'unit', command: 'ls', reuse: 'on' });

    const address = gitea.url.replace('://', `://${user}:boss-boss-1@`);
    const git = (...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=Boss', '-c', 'user.email=boss@example.org', ...args], {
        cwd: folder,
        env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null' },
        stdio: 'pipe',
      })
        .toString()
        .trim();
    git('clone', '--quiet', `${address}/${repository}.git`, '.');

    const seen = new Set<string>();
    /** The request for a commit that an event made since. */
    const ended = async (sha: string, event: string): Promise<Item> => {
      const isOver = (one: Item): boolean =>
        !seen.has(one.id_str) &&
        one.commit_ref === sha &&
        one.event === event &&
        ['passed', 'failed', 'errored'].includes(String(one.build_state));
      const all = await until(
        () => api.get<Item[]>(`${path}/build_requests`),
        (those) => those.some(isOver),
      );
      const found = all.find(isOver) ?? assert.fail();
      seen.add(found.id_str);
      return found;
    };
    /** The one build of that request, with the commit's green statuses at Gitea. */
    const built = async (sha: string, event = 'push', isFromFork = false): Promise<Item> => {
      const request = await ended(sha, event);
      assert.equal(request.from_fork, isFromFork);
      const builds = await api.get<Item[]>(`${path}/build_requests/${request.id_str}/builds`);
      const [build, ...more] = builds.filter(({ checks_id: checks }) => checks === null);
      assert.deepEqual([build?.build_state, more], ['passed', []], JSON.stringify(request));
      const statuses = await until(
        () => gitea.ask<{ state: string; statuses: GiteaItem[] }>('GET', `/repos/${repository}/commits/${sha}/status`),
        ({ state }) => state === 'success',
      );
      const contexts = statuses.statuses.map(({ context }) => String(context));
      assert.deepEqual(contexts.toSorted(), ['headrace', 'headrace/unit']);
      return build ?? assert.fail();
    };
    const ran = async (...about: Parameters<typeof built>): Promise<Item> => {
      const build = await built(...about);
      assert.deepEqual([build.reused_from_id, build.exit_status], [null, 0]);
      return build;
    };
    const reused = async (from: Item, ...about: Parameters<typeof built>): Promise<void> => {
      const build = await built(...about);
      assert.deepEqual([build.reused_from_id_str, build.started_at, build.exit_status], [from.id_str, null, null]);
      assert.match(await api.text(`${path}/builds/${build.id_str}/log.txt`), /^Not run: .*\n$/);
    };
    const pushed = (file: string, newBranch?: string): Promise<string> =>
      gitea.push(repository, file, newBranch === undefined ? {} : { newBranch });
    const pull = async (head: string, as = user): Promise<GiteaItem> =>
      gitea.ask('POST', `/repos/${repository}/pulls`, { head, base: 'main', title: `Take ${head}` }, as);
    const merged = async ({ number }: GiteaItem, how: 'merge' | 'rebase' | 'squash'): Promise<string> => {
      const at = `/repos/${repository}/pulls/${String(number)}`;
      await until(
        () => gitea.ask('GET', at),
        ({ mergeable }) => mergeable === true,
      );
      await gitea.ask('POST', `${at}/merge`, { Do: how });
      return (await gitea.ask<{ commit: { id: string } }>('GET', `/repos/${repository}/branches/main`)).commit.id;
    };
    /** Takes back the last commit of `main`. */
    const reverted = (): string => {
      git('pull', '--quiet', '--ff-only');
      git('revert', '--no-edit', ...(git('log', '-1', '--format=%P').includes(' ') ? ['-m', '1'] : []), 'HEAD');
      git('push', '--quiet', 'origin', 'main');
      return git('rev-parse', 'HEAD');
    };

    // A push and its pull request, and then a squash merge.
    const topic = await pushed('gate', 'topic');
    const ofTopic = await ran(topic);
    const first = await pull('topic');
    await reused(ofTopic, topic, 'pull_request');
    const squashed = await merged(first, 'squash');
    assert.notEqual(squashed, topic);
    await reused(ofTopic, squashed);

    // A revert has the files of before, and a rebase onto it those of the branch.
    const side = await pushed('sluice', 'side');
    const ofSide = await ran(side);
    await ran(await pushed('weir'));
    await reused(ofTopic, reverted());
    const second = await pull('side');
    await reused(ofSide, side, 'pull_request');
    const rebased = await merged(second, 'rebase');
    assert.notEqual(rebased, side);
    await reused(ofSide, rebased);

    // A tag on it.
    await gitea.ask('POST', `/repos/${repository}/tags`, { tag_name: 'v1', target: rebased });
    await reused(ofSide, rebased, 'tag');

    // What a fork's build proved is not taken for the branch. What the branch's own build proved is.
    const stranger = { username: 'stranger', email: 's@example.org', password: 'boss-boss-1' };
    await gitea.ask('POST', '/admin/users', { ...stranger, must_change_password: false });
    await gitea.ask('PUT', `/repos/${repository}/collaborators/stranger`, { permission: 'read' });
    await gitea.ask('POST', `/repos/${repository}/forks`, {}, 'stranger');
    const strange = await gitea.push('stranger/dam', 'raft', { as: 'stranger', newBranch: 'idea' });
    const third = await pull('stranger:idea', 'stranger');
    await ran(strange, 'pull_request', true);
    const ofMerge = await ran(await merged(third, 'merge'));
    await reused(ofSide, reverted());
    await reused(ofMerge, reverted());
  });
});
