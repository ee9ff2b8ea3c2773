import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { readdir, readFile, stat, utimes } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import { parseGitAddress } from '../../../src/shared/domain/git-address.ts';
import { publicLfsUrl } from '../../../src/runner/git/large-files.ts';
import { createRepository } from '../../support/repository.ts';
import { startHttpsGitHost, type HttpsGitHost } from '../../support/https-git.ts';
import { lfsTransferProgram } from '../../support/lfs-transfer.ts';
import { workplace, type Workplace } from './workplace.ts';

const attributes = '*.bin filter=lfs diff=lfs merge=lfs -text\n';
const oidOf = (content: string): string => createHash('sha256').update(content).digest('hex');
const pointerTo = (content: string, size = content.length): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oidOf(content)}\nsize ${size}\n`;

/** A program that says this, to the one request that there is. */
const saying = (text: string): string => `#!/bin/sh
[ "$SSH_ORIGINAL_COMMAND" = "git-lfs-authenticate 'app.git' download" ] && cat <<'END'
${text}
END
`;

interface Place extends Workplace {
  /** Where the files are. */
  store: HttpsGitHost;
  /** What it gives out, by SHA-256. */
  files: Map<string, string>;
  /** What is told of where a file is. */
  told: (oid: string) => unknown;
  checkOut: (files: Record<string, string | { executable: string }>) => Promise<{ tree: string; misses: string[] }>;
}

/** git-lfs does not ask a proxy for localhost, so the place of the files has a name. */
const resolve = async (host: string) => [{ address: host === 'files.test' ? '127.0.0.1' : host, family: 4 }];

/** A git host that says over SSH where its large files are, and the place that has them. */
async function placeWithLfs(t: TestContext): Promise<Place> {
  const store = await startHttpsGitHost({ name: 'files.test' });
  t.after(() => store.close());
  const place = await workplace(t, {
    authorities: store.ca,
    rules: { mayCall: publicAddressFilter(['127.0.0.1/32']), resolve },
  });
  const offer = {
    href: store.url('app.git/info/lfs'),
    header: { Authorization: 'Bearer of-the-batch' },
    expires_in: 60,
  };
  await place.host.provide('git-lfs-authenticate', saying(JSON.stringify(offer)));
  const lfs: Place = {
    ...place,
    store,
    files: new Map(),
    told: (oid) => ({ href: store.url(`objects/${oid}`), header: { Authorization: 'Bearer of-the-file' } }),
    checkOut: async (files) => {
      const sha = await place.repository.commit({ after: null, files: { '.gitattributes': attributes, ...files } });
      const tree = join(place.folder, sha);
      return { tree, misses: (await place.mirrors.checkout({ ...place.project, sha, into: tree })).sentences };
    },
  };
  store.instead = (request, response) => answer(lfs, request, response);
  return lfs;
}

async function answer(lfs: Place, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
  const { url = '' } = request;
  const [, oid] = /^\/objects\/([0-9a-f]{64})$/.exec(url) ?? [];
  if (oid !== undefined) {
    const content = lfs.files.get(oid);
    response.writeHead(content === undefined ? 404 : 200).end(content);
    return true;
  }
  if (!url.endsWith('/info/lfs/objects/batch')) return false;
  let body = '';
  for await (const chunk of request) body += String(chunk);
  const { operation, objects } = JSON.parse(body) as { operation: string; objects: { oid: string; size: number }[] };
  assert.equal(operation, 'download');
  const told = objects.map((object) => {
    const download = lfs.files.has(object.oid) ? lfs.told(object.oid) : undefined;
    return download === undefined ? { ...object, error: { code: 404 } } : { ...object, actions: { download } };
  });
  response.setHeader('content-type', 'application/vnd.git-lfs+json');
  response.end(JSON.stringify({ transfer: 'basic', objects: told }));
  return true;
}

test('pointers are replaced by their files where the host says over SSH where these are', async (t) => {
  const { checkOut, files: held, store, dir, mirrors, project, log } = await placeWithLfs(t);
  for (const content of ['one', 'two']) held.set(oidOf(content), content);
  const first = await checkOut({
    'a.bin': pointerTo('one'),
    'deep/er/ü b.bin': { executable: pointerTo('two') },
    'again.bin': pointerTo('one'),
    'not-a-pointer.bin': 'committed as it is',
    'beside.txt': pointerTo('one'), // nobody said that this is in Git LFS
  });
  assert.deepEqual(first.misses, []);
  const read = (tree: string, path: string): Promise<string> => readFile(join(tree, path), 'utf8');
  assert.equal(await read(first.tree, 'a.bin'), 'one');
  assert.equal(await read(first.tree, 'again.bin'), 'one');
  assert.equal(await read(first.tree, 'deep/er/ü b.bin'), 'two');
  assert.equal((await stat(join(first.tree, 'deep/er/ü b.bin'))).mode & 0o777, 0o755);
  assert.equal((await stat(join(first.tree, 'a.bin'))).mode & 0o777, 0o644);
  assert.equal(await read(first.tree, 'not-a-pointer.bin'), 'committed as it is');
  assert.equal(await read(first.tree, 'beside.txt'), pointerTo('one'));
  const shown = (path: RegExp) =>
    store.calls.filter((call) => path.test(call.path)).map((call) => call.headers.authorization);
  assert.deepEqual(shown(/batch$/), ['Bearer of-the-batch']);
  assert.deepEqual(shown(/^\/objects/), ['Bearer of-the-file', 'Bearer of-the-file']);
  assert.ok(!log().includes('of-the'));

  // What is known is not fetched again, until nobody has needed it for long.
  const calls = store.calls.length;
  assert.equal(await read((await checkOut({ more: 'x', 'a.bin': pointerTo('one') })).tree, 'a.bin'), 'one');
  assert.equal(store.calls.length, calls);
  // A work tree without history has them, too.
  const sealed = join(first.tree, '..', 'sealed');
  const missing = await mirrors.checkout({ ...project, sha: basename(first.tree), isSealed: true, into: sealed });
  assert.deepEqual(missing.sentences, []);
  assert.equal(await read(sealed, 'deep/er/ü b.bin'), 'two');
  const { stdout } = await run('git', ['-c', 'safe.directory=*', 'status', '--porcelain'], { cwd: sealed });
  assert.equal(stdout.toString(), '');
  const [mirror = ''] = await readdir(join(dir, 'mirrors', '1'));
  const kept = join(dir, 'mirrors', '1', mirror, 'lfs');
  const names = await readdir(kept, { recursive: true });
  const files = names.filter((name) => /[0-9a-f]{64}$/.test(name));
  const longAgo = new Date(Date.now() - 3_600_000);
  const placeOf = (content: string): string => join(kept, files.find((name) => name.endsWith(oidOf(content))) ?? '');
  await utimes(placeOf('two'), longAgo, longAgo);
  await mirrors.collect(1_800_000);
  assert.deepEqual([existsSync(placeOf('one')), existsSync(placeOf('two'))], [true, false]);
});

test('a hostile host of large files does no harm [promise: git-addresses] [promise: git-limits]', async (t) => {
  const lfs = await placeWithLfs(t);
  const { checkOut, files, store } = lfs;
  const good = oidOf('good');
  files.set(good, 'good');
  files.set(oidOf('changed'), 'chang3d');
  files.set(oidOf('long'), 'long'.repeat(1000));
  files.set(oidOf('short'), 'sho');
  for (const name of ['inside', 'plain', 'odd']) files.set(oidOf(name), name);
  const elsewhere: Record<string, unknown> = {
    [oidOf('inside')]: { href: `https://127.0.0.2:${store.port}/objects/${good}` },
    [oidOf('plain')]: { href: `http://localhost:${store.port}/objects/${good}` },
    [oidOf('odd')]: { href: 17, header: 'x' },
  };
  const usual = lfs.told;
  lfs.told = (oid) => elsewhere[oid] ?? usual(oid);
  const names = ['changed', 'long', 'inside', 'plain', 'odd', 'missing'];
  const pointers = Object.fromEntries(names.map((name) => [`${name}.bin`, pointerTo(name)]));
  const { tree, misses } = await checkOut({ ...pointers, 'z.bin': pointerTo('good') });
  assert.equal(misses.length, 1);
  assert.match(misses[0] ?? '', /^6 files of Git LFS, such as changed\.bin, were not fetched/);
  for (const name of names) assert.equal(await readFile(join(tree, `${name}.bin`), 'utf8'), pointerTo(name));
  assert.equal(await readFile(join(tree, 'z.bin'), 'utf8'), 'good');

  const cut = await checkOut({ 'cut.bin': pointerTo('short') });
  assert.match(cut.misses.join(''), /does not match the pointer/);
  const huge = await checkOut({ 'huge.bin': pointerTo('huge', 10 ** 14) });
  assert.match(huge.misses.join(''), /exceed the checkout limit/);
});

test('a host without Git LFS, and one that is nonsense, leave the pointers, and that is told', async (t) => {
  const { checkOut, host, store, folder, openMirrors, repository, project } = await placeWithLfs(t);
  const refused = [
    '{"href": "https://169.254.169.254/latest"}',
    `{"href": "http://localhost:${store.port}/app.git/info/lfs"}`,
    'no JSON',
    '[]',
    '{"href": {}}',
  ];
  for (const [at, offer] of refused.entries()) {
    await host.provide('git-lfs-authenticate', saying(offer));
    const { misses } = await checkOut({ [`${at}.bin`]: pointerTo('x') });
    assert.match(misses[0] ?? '', /Git LFS.* not fetched/);
  }
  assert.equal(store.calls.length, 0);
  // The public kind, which says where it is by its own address.
  const lib = await createRepository(join(store.folder, 'lib.git'));
  const inner = await lib.commit({ files: { '.gitattributes': attributes, 'a.bin': pointerTo('public') } });
  const { instead } = store;
  store.instead = async (request, response) => {
    if (request.url === '/lib.git/info/lfs/objects/batch') assert.equal(request.headers.authorization, undefined);
    return instead(request, response);
  };
  const modules = `[submodule "lib"]\n\tpath = lib\n\turl = ${store.url('lib.git')}\n`;
  const sha = await repository.commit({
    on: 'with-submodule',
    after: null,
    files: { '.gitmodules': modules, lib: { submodule: inner } },
  });
  const mirrors = await openMirrors();
  const missed = await mirrors.checkout({ ...project, sha, into: join(folder, 'missed') });
  assert.match(missed.sentences[0] ?? '', /a\.bin of Git LFS was not fetched/);
  store.instead = instead;
});

test('a host that gives the files out over SSH itself is asked there, and for nothing over https', async (t) => {
  const { checkOut, host, store } = await placeWithLfs(t);
  const large = 'large '.repeat(50_000);
  const contents = ['one', large, 'forbidden'];
  const files = Object.fromEntries(contents.map((content) => [oidOf(content), content]));
  await host.provide('git-lfs-transfer', lfsTransferProgram(files));
  const { tree, misses } = await checkOut({
    'a.bin': pointerTo('one'),
    'b.bin': pointerTo('forbidden'),
    'c.bin': pointerTo(large),
    'd.bin': pointerTo('missing'),
  });
  assert.equal(await readFile(join(tree, 'a.bin'), 'utf8'), 'one');
  assert.equal(await readFile(join(tree, 'c.bin'), 'utf8'), large);
  assert.equal(misses.length, 1);
  assert.match(misses[0] ?? '', /^2 files of Git LFS, such as b\.bin, were not fetched/);
  assert.equal(store.calls.length, 0);

  const bad = [
    "content = b'something else'",
    "content = b'x' * 10000000",
    'sys.exit(0)',
    "out.write(b'zzzz'); out.flush()",
    "send(*[b'x' * 60000] * 100)",
  ];
  for (const [at, what] of bad.entries()) {
    const content = `evil ${at}`;
    await host.provide('git-lfs-transfer', lfsTransferProgram({ [oidOf(content)]: content }, what));
    const cheated = await checkOut({ 'a.bin': pointerTo(content) });
    assert.match(cheated.misses[0] ?? '', /^The file a\.bin of Git LFS was not fetched/, what);
    assert.equal(await readFile(join(cheated.tree, 'a.bin'), 'utf8'), pointerTo(content));
  }
});

test('where anybody would ask for large files follows from the address of the repository', () => {
  const placeOf = (url: string): string | undefined => {
    const address = parseGitAddress(url);
    assert.ok(address, url);
    return publicLfsUrl(address);
  };
  assert.equal(placeOf('git@git.test:team/app.git'), 'https://git.test/team/app.git/info/lfs');
  assert.equal(placeOf('ssh://git@git.test:2222/team/app'), 'https://git.test/team/app.git/info/lfs');
  assert.equal(placeOf('git.test:/srv/app'), 'https://git.test/srv/app.git/info/lfs');
  assert.equal(placeOf('https://git.test:8443/team/app'), 'https://git.test:8443/team/app.git/info/lfs');
  assert.equal(placeOf('git@[::1]:app.git'), 'https://[::1]/app.git/info/lfs');
  assert.equal(placeOf('git@git.test:app.git?x'), undefined);
});
