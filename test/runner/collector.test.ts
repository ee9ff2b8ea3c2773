import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { collectFiles, type CollectedFile, type Collection, type Wanted } from '../../src/runner/collector.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Job, RunFiles, Sandboxes } from '../../src/runner/sandbox/types.ts';
import { temporaryFolder } from '../support/databases.ts';
import { longestWait } from '../support/pauses.ts';

const limits = { memoryBytes: 512 * 1024 * 1024, processes: 64, timeoutMs: longestWait };

for (const isolation of ['required', 'off'] as const)
  describe(`what a build left${isolation === 'off' ? ', without isolation,' : ''}`, () => {
    let folder: string;
    let sandboxes: Sandboxes;
    before(async () => {
      folder = temporaryFolder();
      const stateDir = join(folder, 'sandboxes');
      sandboxes = await openSandboxes({ stateDir, network: 'host', isolation, log: () => {} });
      const checkout = join(folder, 'checkout');
      mkdirSync(join(checkout, 'src'), { recursive: true });
      chmodSync(folder, 0o755);
      writeFileSync(join(checkout, 'README'), 'read me');
      writeFileSync(join(checkout, 'src/gone.c'), 'was here');
      writeFileSync(join(checkout, 'src/kept.c'), 'before');
      await sandboxes.adopt(checkout);
    });
    after(async () => {
      await sandboxes.close();
      rmSync(folder, { recursive: true });
    });

    /** Runs a command in a copy of the checkout, and does something with what it leaves. */
    const afterRun = async (command: string, look: (left: RunFiles) => Promise<void>, job: Partial<Job> = {}) => {
      const said: Buffer[] = [];
      const ended = await sandboxes.run({
        id: 'collected',
        steps: [{ name: 'command', command: `set +e; ${command}` }],
        environment: {},
        workspace: { checkout: join(folder, 'checkout') },
        limits,
        output: (chunk) => void said.push(chunk),
        onLeft: look,
        signal: new AbortController().signal,
        ...job,
      });
      return { ...ended, said: Buffer.concat(said).toString() };
    };
    interface CollectedAll extends Collection {
      texts: Record<string, string>;
    }
    const wantedOf = (globs: string[], wanted: Partial<Wanted>): Wanted => ({
      globs,
      mostFiles: 1000,
      mostBytes: 1_000_000,
      signal: new AbortController().signal,
      ...wanted,
    });
    const collect = async (command: string, globs: string[], wanted: Partial<Wanted> = {}): Promise<CollectedAll> => {
      const texts: Record<string, string> = {};
      let found: Collection | undefined;
      await afterRun(command, async (left) => {
        found = await collectFiles(left, wantedOf(globs, wanted), async ({ path, size, content }) => {
          const bytes = await bytesOf(content);
          assert.equal(bytes.length, size);
          texts[path] = bytes.toString();
        });
      });
      assert.ok(found);
      return { ...found, texts };
    };

    test('is found by globs, with the changes of the build', async () => {
      const { texts, unmatched, failure, files } = await collect(
        'rm src/gone.c; echo -n after > src/kept.c; mkdir -p dist/sub .cache; echo -n a > dist/a; echo -n b > dist/sub/b; echo -n c > dist/.c; echo -n d > .cache/d; mkdir -m 700 own; echo -n e > own/e; chmod 600 own/e',
        ['dist', '**/*.c', 'README', 'own/**', 'no/such', '.cache/?'],
      );
      assert.deepEqual(texts, {
        '.cache/d': 'd',
        README: 'read me',
        'dist/a': 'a',
        'dist/sub/b': 'b',
        'own/e': 'e',
        'src/kept.c': 'after',
      });
      assert.deepEqual({ unmatched, failure, files }, { unmatched: ['no/such'], failure: null, files: 6 });
    });

    test('leaves out links, pipes, sockets and what cannot be read [promise: artifact-files]', async () => {
      writeFileSync(join(folder, 'secret'), 'of the machine');
      const { texts, leftOut, leftOutCounts } = await collect(
        [
          'mkdir x',
          'ln -s /etc/passwd x/link; ln -s /dev/zero x/zero; ln -s ../README x/inside; ln -s / x/root; ln -s .. x/up',
          `ln -s ${join(folder, 'secret')} x/secret; ln -s /proc/self/environ x/environ`,
          'mkfifo x/fifo',
          `perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("x/socket")) or die'`,
          'echo -n fine > x/fine',
        ].join('\n'),
        ['x', 'x/root/etc/passwd', 'x/up/README', 'x/**/passwd'],
      );
      assert.deepEqual(texts, { 'x/fine': 'fine' });
      assert.deepEqual(leftOutCounts, { link: 7, special: 2 });
      assert.ok(leftOut.some(({ path, reason }) => path === 'x/fifo' && reason === 'special'));
    });

    test('leaves out names that are no text, and keeps the odd ones', async () => {
      const { texts, leftOut, leftOutCounts } = await collect(
        String.raw`mkdir n; cd n; for name in 'bad\377' 'line\nbreak' 'esc\033[31m' 'turn\342\200\256txt.exe' 'c1\302\233x'; do touch "$(printf "$name")"; done; touch -- '..evil' '...' '-rf' ' ' '\..\x' 'C:x' '%2e%2e' 'ü€𝄞' "it's"`,
        ['n/*', 'n/.*'],
      );
      const names = ['..evil', '...', '-rf', ' ', '\\..\\x', 'C:x', '%2e%2e', 'ü€𝄞', "it's"];
      assert.deepEqual(Object.keys(texts).toSorted(), names.map((name) => `n/${name}`).toSorted());
      assert.deepEqual(leftOutCounts, { name: 5 });
      assert.ok(
        leftOut.every(({ path }) => /^n\/[ -~]+$/.test(path)),
        JSON.stringify(leftOut),
      );
    });

    test('is bounded in number, size, depth and entries', async () => {
      const many = await collect('mkdir m; cd m; seq 1000 1099 | xargs touch', ['m'], { mostFiles: 7 });
      assert.equal(Object.keys(many.texts).length, 7);
      assert.deepEqual(many.leftOutCounts, { many: 93 });
      assert.equal(many.leftOut.length, 20);

      const large = await collect(
        'truncate -s 1T huge; echo -n 12345 > a; echo -n 1234567 > b; echo -n 123 > c',
        ['*'],
        {
          mostBytes: 15,
        },
      );
      assert.deepEqual(large.texts, { README: 'read me', a: '12345', c: '123' });
      assert.deepEqual(large.leftOutCounts, { large: 4 });

      const deep = await collect(`perl -e 'for (1..150) { mkdir "d"; chdir "d" } open F, ">", "bottom"'; touch d/top`, [
        'd',
      ]);
      assert.deepEqual([Object.keys(deep.texts), deep.leftOutCounts], [['d/top'], { deep: 1 }]);

      const entries = await collect('mkdir e; cd e; seq 1000 1099 | xargs touch', ['**/*'], { mostEntries: 50 });
      assert.deepEqual([entries.isPartial, entries.failure], [true, null]);
      assert.ok(entries.files <= 50);
    });

    test('can be collected again from a file on', async () => {
      const command = 'mkdir f; for name in a b c d; do echo -n $name > f/$name; done';
      const rest = await collect(command, ['f', '*'], { skip: 3 });
      assert.deepEqual(rest.texts, { 'f/c': 'c', 'f/d': 'd', 'src/kept.c': 'before', 'src/gone.c': 'was here' });
      assert.equal(rest.files, 7);
    });

    test('can be passed over, and an error of the taker ends the collection', async () => {
      const paths: string[] = [];
      const { exitStatus } = await afterRun('head -c 300000 /dev/zero > a; cp a b; touch c; exit 3', async (left) => {
        await collectFiles(left, wantedOf(['?'], {}), async ({ path }) => void paths.push(path));
        const failing = collectFiles(left, wantedOf(['?'], {}), () => Promise.reject(new Error('no room')));
        await assert.rejects(failing, /no room/);
      });
      assert.deepEqual([paths, exitStatus], [['a', 'b', 'c'], 3]);
    });

    test('waits for who takes it', async () => {
      let most = 0;
      await afterRun('head -c 20000000 /dev/zero > large', async (left) => {
        const wanted = wantedOf(['large'], { mostBytes: 100_000_000 });
        await collectFiles(left, wanted, async ({ content }: CollectedFile) => {
          for await (const piece of content) most = Math.max(most, piece.length);
        });
      });
      assert.ok(most > 0 && most <= 128 * 1024, `${most}`);
    });

    if (isolation === 'required')
      test('is looked at read-only, by a sandbox without a network, with the home where asked', async () => {
        const seen: string[] = [];
        const { said } = await afterRun(
          'echo -n mine > ~/own; echo -n here > /build/x; echo hidden > /tmp/t; cut -d: -f1 -s /proc/net/dev | grep -vw lo | wc -l',
          async (left) => {
            const look = async (command: string, home: boolean): Promise<void> => {
              let text = '';
              const output = (chunk: Buffer): void => void (text += chunk.toString());
              await left.inspect({ command, home, limits, output, signal: new AbortController().signal });
              seen.push(text);
            };
            await look(
              'set +e; cat x ~/own 2>/dev/null; ls /tmp; touch x y 2>&1 | grep -c Read-only; cut -d: -f1 -s /proc/net/dev',
              false,
            );
            await look('cat x ~/own; touch ~/own 2>&1 | grep -c Read-only', true);
          },
        );
        assert.notEqual(said.trim(), '0', 'the build itself has a network');
        assert.deepEqual(seen, ['here2\n    lo\n', 'heremine1\n']);
      });

    if (isolation === 'required')
      test('shows what was mounted inside the workspace', async () => {
        const [below, above] = ['below', 'above'].map((name) => join(folder, name)) as [string, string];
        for (const path of [below, above]) mkdirSync(path, { mode: 0o755 });
        writeFileSync(join(below, 'old'), 'old');
        await sandboxes.adopt(below);
        const texts: Record<string, string> = {};
        await afterRun(
          'echo -n new > target/new',
          async (left) => {
            await collectFiles(left, wantedOf(['target/*'], {}), async ({ path, content }) => {
              texts[path] = (await bytesOf(content)).toString();
            });
          },
          { mounts: [{ at: '/build/target', layers: [below], writable: above }] },
        );
        assert.deepEqual(texts, { 'target/new': 'new', 'target/old': 'old' });
      });
  });

async function bytesOf(content: AsyncIterable<Buffer>): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of content) pieces.push(piece);
  return Buffer.concat(pieces);
}
