import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { createRepository } from '../../support/repository.ts';
import { basic, credential, oidOf, placeAtForge, pointerTo, type PlaceAtForge } from './at-forge.ts';

/* What strangers try with a repository over HTTPS, and with the credential that opens it. */

const modules = (urls: Record<string, string>): string =>
  Object.entries(urls)
    .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
    .join('');

/** A commit of a fork with one submodule, and what became of its checkout. */
async function forkNaming({ app, mirrors, own, folder }: PlaceAtForge, url: string, sha: string, more = {}) {
  const links = { '.gitmodules': modules({ inner: url }), inner: { submodule: sha } };
  const fork = await app.commit({ on: 'proposed', after: await app.sha('main'), files: links });
  await app.git(['update-ref', 'refs/pull/1/head', fork]);
  await app.deleteBranch('proposed');
  const into = join(folder, fork);
  const wanted = { sha: fork, fetchRef: 'refs/pull/1/head', isFork: true, into };
  const said = await mirrors.checkout({ ...own, ...more, ...wanted }).then(
    ({ sentences }) => sentences.join('\n'),
    (error: unknown) => String(error),
  );
  const file = join(into, 'inner', 'plan');
  return { said, plan: existsSync(file) ? await readFile(file, 'utf8') : undefined };
}

test('a fork that names its own repository as a submodule gets what anybody gets [promise: fork-sources]', async (t) => {
  const place = await placeAtForge(t);
  const { app, forge, mirrors, own } = place;
  const open = await app.commit({ files: { plan: 'for everybody' } });
  const hidden = await app.commit({ on: 'hidden', after: null, files: { plan: 'hidden' } });
  assert.equal((await mirrors.fetch({ ...own, commitRef: 'hidden' })).sha, hidden);
  // Overwritten and collected: the runner alone still has it.
  await app.deleteBranch('hidden');
  await app.git(['reflog', 'expire', '--expire=now', '--all']);
  await app.git(['gc', '--quiet', '--prune=now']);
  for (const url of ['../app', '../app.git', './', forge.url('team/app'), `${forge.url('team/app')}/`]) {
    const { plan, said } = await forkNaming(place, url, hidden);
    assert.equal(plan, undefined, url);
    assert.match(said, /There is no commit|Submodule inner is skipped/, url);
  }
  assert.equal((await forkNaming(place, '../app', open)).plan, 'for everybody');

  // Nor does the token of the project fetch it.
  forge.instead = ({ headers }, response) => {
    if (headers.authorization === basic) return false;
    response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    return true;
  };
  const next = await app.commit({ files: { plan: 'private now' } });
  for (const url of ['../app', forge.url('team/app')]) {
    const { plan, said } = await forkNaming(place, url, next, { credential });
    assert.equal(plan, undefined);
    assert.match(said, /Submodule inner is skipped: its host refuses anonymous access \(401\)/);
  }
});

test('a credential follows no redirect, also not to another repository of its host [promise: git-credentials]', async (t) => {
  const { app, forge, own, mirrors, fetchFails, folder } = await placeAtForge(t);
  const secret = await createRepository(join(forge.folder, 'team', 'secret.git'));
  await secret.commit({ files: { plan: 'secret' } });
  const files = { '.gitattributes': '*.bin filter=lfs -text\n', 'a.bin': pointerTo('large') };
  const sha = await app.commit({ files });
  const opened = { ...own, credential };
  const told = (): string[] =>
    forge.calls
      .filter(({ headers }) => headers.authorization !== undefined)
      .map(({ path }) => path.split('?', 1)[0] ?? '');

  forge.instead = ({ url = '' }, response) => {
    if (!url.startsWith('/team/app')) return false;
    response.writeHead(307, { location: url.replace(/\/team\/app(\.git)?/, '/team/secret.git') }).end();
    return true;
  };
  const refused = await fetchFails('not_public', 'main', opened);
  assert.match(refused, /it redirects, and the token of its forge is only sent to its own address/);
  assert.ok(told().length > 0 && told().every((path) => /^\/team\/app(\.git)?\//.test(path)), told().join());
  assert.ok(!forge.calls.some(({ path }) => path.includes('secret')));

  // Forges that have a repository under `.git` alone lead there, and it is found without being led.
  forge.instead = ({ url = '' }, response) => {
    if (!url.startsWith('/team/app/')) return false;
    response.writeHead(301, { location: url.replace('/team/app/', '/team/app.git/') }).end();
    return true;
  };
  assert.equal((await mirrors.fetch({ ...opened, commitRef: 'main' })).sha, sha);
  const { listing } = await mirrors.listRefs({ ...opened, digest: null, timeoutMs: 60_000, keepMs: 0 });
  assert.match(listing ?? '', new RegExp(sha));

  // What git-lfs is told: another place to ask, and a place of the file that only looks like one of this repository.
  const object = { oid: oidOf('large'), size: 5 };
  const places = [
    forge.url('team/app.git/../secret.git/info/lfs/objects/large'),
    forge.url('team/app.git/info/lfs/objects/large'),
    forge.url('team/secret.git/info/lfs/objects/large'),
  ];
  for (const [at, href] of [undefined, ...places].entries()) {
    forge.instead = (request, response) => {
      const { url = '' } = request;
      if (!url.includes('/info/lfs/')) return false;
      request.resume();
      if (!url.endsWith('/batch')) response.writeHead(302, { location: forge.url('team/secret.git/large') }).end();
      else if (href === undefined)
        response.writeHead(307, { location: forge.url('team/secret.git/info/lfs/objects/batch') }).end();
      else {
        response.writeHead(200, { 'content-type': 'application/vnd.git-lfs+json' });
        response.end(JSON.stringify({ transfer: 'basic', objects: [{ ...object, actions: { download: { href } } }] }));
      }
      return true;
    };
    const before = told().length;
    const { sentences } = await mirrors.checkout({ ...opened, sha, into: join(folder, `tree-${at}`) });
    assert.match(sentences.join('\n'), /The file a\.bin of Git LFS was not fetched/);
    if (href === undefined) assert.match(sentences.join('\n'), /it redirects to another address/);
    assert.deepEqual([...new Set(told().slice(before))], ['/team/app.git/info/lfs/objects/batch']);
  }
});

test('the target of a deploy has no credential of the source, also at its address [promise: git-credentials]', async (t) => {
  const { app, forge, own, mirrors } = await placeAtForge(t);
  const target = await createRepository(join(forge.folder, 'team', 'target.git'));
  for (const one of [app, target]) await one.git(['config', 'http.receivepack', 'true']);
  const sha = await app.commit();
  const opened = { ...own, credential };
  for (const name of ['team/target.git', 'team/app']) {
    const before = forge.calls.length;
    const asked = { sha, localBranch: 'main', remoteUrl: forge.url(name), remoteBranch: 'deployed' };
    await mirrors.push({ ...opened, ...asked });
    const pushing = forge.calls.slice(before).filter(({ path }) => path.includes('receive-pack'));
    assert.ok(pushing.length > 0);
    assert.ok(pushing.every(({ headers }) => headers.authorization === undefined));
  }
});
