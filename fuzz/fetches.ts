import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { run } from '../src/shared/lib/processes.ts';
import { removeTree } from '../src/shared/lib/remove-tree.ts';
import { FetchError } from '../src/runner/git/failures.ts';
import { openMirrors } from '../src/runner/git/mirrors.ts';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import { makeKeyPair, startGitHost } from '../test/support/sshd.ts';
import { oddRepository, store } from './git-objects.ts';
import { anyProperty, type Target } from './target.ts';

/**
 * Repositories as no git would make them, against the fetch and the checkout of a runner: each ends with a commit and its
 * work tree, or with a reason in words, and nothing beside the work tree is made, changed or left behind.
 */
export const fetches: Target = {
  name: 'fetches',
  runs: 6,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    const host = await startGitHost();
    const key = await makeKeyPair('fuzz');
    await host.authorize(key.publicKey);
    const sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: 'none',
      etc: 'bare',
      isolation: 'required',
      log: () => {},
    });
    const mirrors = await openMirrors({ dir: join(folder, 'runner'), sandboxes, sshConfig: host.sshConfig });
    const outside = join(folder, 'outside');
    await mkdir(outside);
    writeFileSync(join(outside, 'precious'), 'mine');
    const trees = join(folder, 'trees');
    await mkdir(trees);
    let count = 0;

    const property = fc.asyncProperty(oddRepository, async (odd) => {
      const name = `${++count}.git`;
      const gitDir = join(host.folder, name);
      await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', gitDir]);
      const sha = await store(gitDir, odd);
      // By hand: git itself would refuse to name some of these.
      writeFileSync(join(gitDir, 'refs', 'heads', 'main'), `${sha}\n`);
      const into = join(trees, String(count));
      const request = {
        projectId: String(count),
        repositoryUrl: host.url(name),
        privateKey: key.privateKey,
        writeLog: () => {},
        signal: new AbortController().signal,
      };
      let reason = '';
      try {
        const found = await mirrors.fetch({ ...request, commitRef: 'main' });
        assert.equal(found.sha, sha);
        await mirrors.checkout({ ...request, sha, isFork: count % 2 === 0, into });
      } catch (error) {
        if (!(error instanceof FetchError)) throw error;
        reason = error.message;
        assert.notEqual(reason, '');
      }
      assert.deepEqual(readdirSync(trees), reason === '' ? [String(count)] : []);
      assert.deepEqual(readdirSync(folder).toSorted(), ['outside', 'runner', 'sandboxes', 'trees']);
      assert.deepEqual([readdirSync(outside), readFileSync(join(outside, 'precious'), 'utf8')], [['precious'], 'mine']);
      await Promise.all([into, gitDir].map(removeTree));
    });
    return {
      property: anyProperty(property),
      close: async () => {
        await sandboxes.close();
        await mirrors.close();
        await host.close();
        await removeTree(folder);
      },
    };
  },
};
