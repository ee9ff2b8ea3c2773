import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { zstdCompressSync } from 'node:zlib';
import { run } from '../../src/shared/lib/processes.ts';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import type { FoundCache } from '../../src/shared/protocol/index.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';
import { Blobs, CachingRunner } from '../support/caching.ts';
import { temporaryFolder } from '../support/databases.ts';
import { tarOf, type TarEntry } from '../support/tar.ts';
import { lacks } from '../support/machine.ts';

const isRoot = process.getuid?.() === 0;
const user = 60_915;

/** A runner that stores whatever it likes as a cache, against the one that gets it. */
describe('a cache that no packer would make', () => {
  let folder: string;
  let outside: string;
  let sandboxes: Sandboxes;
  before(async () => {
    folder = temporaryFolder();
    const stateDir = join(folder, 'sandboxes');
    sandboxes = await openSandboxes({ stateDir, network: 'none', isolation: 'required', log: () => {} });
    // Files that belong to the user of all builds on this machine, as those of another account do.
    outside = join(folder, 'outside');
    mkdirSync(outside);
    writeFileSync(join(outside, 'secret'), 'of another account');
    for (const path of [join(outside, 'secret'), outside])
      if (isRoot) chownSync(path, sandboxes.owner.uid, sandboxes.owner.gid);
    chmodSync(outside, 0o700);
  });
  after(async () => {
    await sandboxes.close();
    await removeTree(folder);
  });
  let runners = 0;
  const open = (blobs: Blobs, at = `runner-${(runners += 1)}`): Promise<CachingRunner> =>
    CachingRunner.open(join(folder, at), sandboxes, blobs);
  const stored = (blobs: Blobs, entries: TarEntry[], name: string): FoundCache => {
    const bytes = zstdCompressSync(tarOf(entries));
    const digest = createHash('sha256').update(bytes).digest('hex');
    blobs.all.set(digest, bytes);
    return { id: '1', branch: 'main', sha: 'c'.repeat(40), name, digest, bytes: 1 };
  };
  const link = (name: string, target = outside): TarEntry => ({ name, type: 'symbolic link', target });
  const look = `ls -A . ~ deps; cat secret ~/secret deps/secret x/secret ~/x; rm -f secret ~/secret deps/secret;
    echo bad >~/secret; echo bad >secret; echo bad >deps/secret; true`;
  const isUntouched = (text: string): void => {
    assert.doesNotMatch(text, /of another account|root:x:/);
    assert.deepEqual(readdirSync(outside), ['secret']);
    assert.equal(readFileSync(join(outside, 'secret'), 'utf8'), 'of another account');
  };

  const attacks = (): Record<string, TarEntry[]> => ({
    'a link for the home': [link('home')],
    'a link for the workspace': [link('workspace')],
    'links for both': [link('home'), link('workspace')],
    'a link for what is around them': [link('.'), link('../tree'), { name: 'home/new', content: 'bad' }],
    'a link for the home, and files through it': [link('home'), { name: 'home/new', content: 'bad' }],
    'a file for the home': [{ name: 'home', content: 'bad' }],
    'a pipe for the home': [{ name: 'home', type: 'pipe' }],
    'a device for the workspace': [{ name: 'workspace', type: 'character device' }],
    'a hard link to a file of the machine': [{ name: 'home/x', type: 'hard link', target: join(outside, 'secret') }],
    'names that lead out': [
      { name: 'workspace/../../../../outside/secret', content: 'bad' },
      { name: join(outside, 'secret'), content: 'bad' },
    ],
    'a link that is written through': [link('workspace/x'), { name: 'workspace/x/secret', content: 'bad' }],
    'more than a tree has': [{ name: 'about', content: '{}' }, { name: 'boot', content: '' }, link('other')],
    'a whiteout': [{ name: 'workspace/deps', type: 'character device' }],
    'modes that close it': [
      { name: 'home/', type: 'directory', mode: 0 },
      { name: 'workspace/', type: 'directory', mode: 0 },
    ],
  });

  test('mounts and changes nothing of the machine in the next build [promise: cache-confinement]', async () => {
    for (const [what, entries] of Object.entries(attacks())) {
      const blobs = new Blobs();
      const evil = stored(blobs, entries, '2');
      const runner = await open(blobs);
      const { text, said, cache } = await runner.build(look, evil, { paths: ['deps', '~/x'] });
      assert.match(said, /^Fetching .*\n(Restored|The build starts without) the cache of main/, what);
      isUntouched(text);
      assert.deepEqual(
        readdirSync(join(folder, `runner-${runners}`, 'caches')).filter((name) => !name.startsWith('7-')),
        [],
        `${what}: nothing half is left`,
      );
      // Building over it again, or over what was saved of it, does no better.
      for (const next of [evil, cache]) isUntouched((await runner.build(look, next, { paths: ['deps', '~/x'] })).text);
    }
  });

  test('that was unpacked earlier is done without, and fetched again [promise: cache-confinement]', async () => {
    for (const part of ['home', 'workspace']) {
      const blobs = new Blobs();
      const at = `earlier-${part}`;
      const { cache } = await (await open(blobs, at)).build('mkdir deps; echo good >deps/f', undefined);
      const place = readdirSync(join(folder, at, 'caches'), { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith(`/${part}`))
        .map((path) => join(folder, at, 'caches', path));
      assert.equal(place.length, 1);
      const [root = ''] = place;
      const spoil = (): void => {
        renameSync(root, `${root}.away`);
        symlinkSync(outside, root);
      };
      // Under a runner that has it in use already, a build that would need it is refused.
      const before = await open(blobs, at);
      spoil();
      await assert.rejects(before.build(look, cache), /a link stands in its way/);
      isUntouched('');
      // The next runner sees what became of it.
      const next = await open(blobs, at);
      const { text, said } = await next.build(`cat deps/f; ${look}`, cache);
      assert.match(said, /^Fetching/);
      assert.match(text, /^good\n/);
      isUntouched(text);
    }
  });
});

test(
  'an ordinary user’s runner withstands the same caches [promise: cache-confinement]',
  { skip: lacks('other users') },
  async () => {
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--test', import.meta.filename];
    const ran = await run('setpriv', ['--reuid', `${user}`, '--regid', `${user}`, '--clear-groups', '--', ...node], {
      env: { PATH: process.env.PATH ?? '' },
    });
    assert.equal(ran.status, 0, ran.stdout.toString());
    assert.match(ran.stdout.toString(), /pass 2\n/);
  },
);
