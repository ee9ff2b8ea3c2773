import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { lfsTransferProgram } from '../../support/lfs-transfer.ts';
import { longestWait } from '../../support/pauses.ts';
import { createRepository } from '../../support/repository.ts';
import { startHttpsGitHost, type HttpsGitHost } from '../../support/https-git.ts';
import { basic, credential, oidOf, placeAtForge, pointerTo } from './at-forge.ts';
import { workplace } from './workplace.ts';

/** Whatever runs on this machine, by its command line. */
function commandLines(): string {
  const lineOf = (pid: string): string => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    } catch {
      return ''; // it ended in this moment
    }
  };
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(lineOf)
    .join('\n');
}

/** Gives out one large file, to whoever has asked for it with the credential. */
async function answerLfs(forge: HttpsGitHost, request: IncomingMessage, response: ServerResponse): Promise<void> {
  for await (const _ of request);
  const object = { oid: oidOf('large'), size: 5, actions: { download: { href: forge.url('objects/large') } } };
  response.setHeader('content-type', 'application/vnd.git-lfs+json');
  response.end(JSON.stringify({ transfer: 'basic', objects: [object] }));
}

test('a token opens one repository over HTTPS, and is shown to nothing else [promise: git-credentials]', async (t) => {
  const { forge, app, own, mirrors, folder, log, fetchFails } = await placeAtForge(t);
  const other = await startHttpsGitHost({ name: 'forge.test' });
  t.after(() => other.close());
  const lib = await createRepository(join(forge.folder, 'team', 'lib.git'));
  const secret = await createRepository(join(forge.folder, 'team', 'secret.git'));
  const [libSha, secretSha] = [await lib.commit({ files: { a: 'lib' } }), await secret.commit()];
  const modules = { lib: '../lib', secret: '../secret.git', other: other.url('lib.git'), key: 'git@forge.test:x.git' };
  const sha = await app.commit({
    files: {
      '.gitattributes': '*.bin filter=lfs -text\n',
      'a.bin': pointerTo('large'),
      '.gitmodules': Object.entries(modules)
        .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
        .join(''),
      ...Object.fromEntries(Object.keys(modules).map((path) => [path, { submodule: libSha }])),
      secret: { submodule: secretSha },
    },
  });
  const lines: string[] = [];
  forge.instead = async (request, response) => {
    const { url = '', headers } = request;
    lines.push(commandLines());
    if (url === '/objects/large') response.end('large');
    else if (url.startsWith('/team/lib/')) return false;
    else if (headers.authorization === undefined) response.writeHead(401, { 'www-authenticate': 'Basic' }).end();
    // A host that says back what it was sent.
    else if (headers.authorization !== basic)
      response.writeHead(403, { 'content-type': 'text/plain' }).end(`no: ${headers.authorization}\n`);
    else if (url.includes('/info/lfs/')) await answerLfs(forge, request, response);
    else return false;
    return true;
  };
  const opened = { ...own, credential };
  assert.equal((await mirrors.fetch({ ...opened, commitRef: 'main' })).sha, sha);
  const { listing } = await mirrors.listRefs({ ...opened, digest: null, timeoutMs: longestWait, keepMs: 0 });
  assert.match(listing ?? '', new RegExp(`${sha} refs/heads/main`));
  const found = await mirrors.checkAccess({ ...opened, timeoutMs: longestWait });
  assert.deepEqual([found.defaultBranch, found.files.includes('a.bin')], ['main', true]);
  const tree = join(folder, 'tree');
  const { sentences } = await mirrors.checkout({ ...opened, credential: async () => credential, sha, into: tree });
  assert.equal(await readFile(join(tree, 'a.bin'), 'utf8'), 'large');
  assert.equal(await readFile(join(tree, 'lib', 'a'), 'utf8'), 'lib');
  // A submodule is named by whoever can push: what the token opens beside this repository stays closed to them.
  assert.match(sentences.join('\n'), /Submodule secret is skipped: its host refuses anonymous access \(401\)/);
  assert.match(sentences.join('\n'), /Submodule other is skipped/);
  assert.match(sentences.join('\n'), /Submodule key is skipped: .* the key of the project is not used/);
  for (const { path, headers } of forge.calls)
    assert.equal(headers.authorization, /^\/team\/app(\.git)?\//.test(path) ? basic : undefined, path);
  assert.ok(other.calls.every(({ headers }) => headers.authorization === undefined));

  // A fork's commit is fetched from the refs of this repository, and nothing that needs the token comes with it.
  const fork = await app.commit({ on: 'proposed', after: sha, files: { 'b.txt': 'of a fork' } });
  await app.git(['update-ref', 'refs/pull/1/head', fork]);
  await app.deleteBranch('proposed');
  const before = forge.calls.length;
  const proposed = join(folder, 'proposed');
  const wanted = { sha: fork, fetchRef: 'refs/pull/1/head', isFork: true, into: proposed };
  const lacking = (await mirrors.checkout({ ...opened, ...wanted })).sentences;
  assert.equal(await readFile(join(proposed, 'b.txt'), 'utf8'), 'of a fork');
  assert.match(lacking.join('\n'), /The file a\.bin of Git LFS was not fetched/);
  const asked = forge.calls.slice(before).filter(({ path }) => path.includes('/info/lfs/'));
  assert.ok(asked.length > 0 && asked.every(({ headers }) => headers.authorization === undefined));

  const wrong = { ...credential, password: 'another-token-0123456789' };
  const refused = await fetchFails('repository_not_found', 'main', { ...own, projectId: '2', credential: wrong });
  assert.match(
    refused,
    /refuses the token of its forge \(403\)[^]*\nWhat git and the host said:\n[^]*remote: no: Basic \[masked\]/,
  );
  const traces = [
    ...[tree, proposed].map((at) => readFileSync(join(at, '.git', 'config'), 'utf8')),
    ...lines,
    log(),
    refused,
    sentences.join(),
  ];
  const forms = [credential.password, wrong.password].flatMap((token) => [
    token,
    Buffer.from(`${credential.username}:${token}`).toString('base64'),
  ]);
  for (const form of forms) assert.ok(!traces.some((text) => text.includes(form)));
});

test('why a repository cannot be fetched over HTTPS is told in words [promise: git-addresses]', async (t) => {
  const { forge, app, own, fetchFails, fetch, openMirrors, folder } = await placeAtForge(t);
  await app.commit();
  const failing = (kind: Parameters<typeof fetchFails>[0], repositoryUrl = own.repositoryUrl) =>
    fetchFails(kind, 'main', { ...own, repositoryUrl });
  for (const status of [401, 403, 404]) {
    forge.instead = (_, response) => {
      response.writeHead(status).end();
      return true;
    };
    const refused = await failing('repository_not_found');
    assert.match(
      refused,
      new RegExp(`refuses anonymous access \\(${status}\\).*enter its SSH address, such as git@forge\\.test:team/app`),
    );
  }
  forge.instead = (_, response) => {
    response.writeHead(503).end();
    return true;
  };
  assert.match(await failing('host_unreachable'), /its host answers 503/);
  const elsewhere = await startHttpsGitHost({ name: 'forge.test' });
  t.after(() => elsewhere.close());
  for (const to of [elsewhere.url('team/app'), forge.url('x').replace('forge.test', 'other.test')]) {
    forge.instead = ({ url = '' }, response) => {
      response.writeHead(301, { location: `${new URL(to).origin}${url}` }).end();
      return true;
    };
    assert.match(await failing('not_public'), /it redirects to another host, which is not followed/);
  }
  assert.equal(elsewhere.calls.length, 0);
  // To another path of the same host it is followed, as forges do it for a name without `.git`.
  forge.instead = ({ url = '' }, response) => {
    if (!url.startsWith('/team/old')) return false;
    response.writeHead(301, { location: url.replace('/team/old', '/team/app.git') }).end();
    return true;
  };
  assert.match((await fetch('main', { ...own, repositoryUrl: forge.url('team/old') })).sha, /^[0-9a-f]{40}$/);

  const called = forge.calls.length;
  // What builds may reach is another list.
  const inside = {
    allowedAddresses: ['10.0.0.0/8'],
    rules: { resolve: async () => [{ address: '10.1.2.3', family: 4 }] },
  };
  for (const [dir, more] of Object.entries({ narrow: {}, inside })) {
    const narrow = await openMirrors({ dir: join(folder, dir), gitAllow: [], ...more });
    await assert.rejects(narrow.fetch({ ...own, commitRef: 'main' }), {
      kind: 'not_public',
      message: `The repository ${own.repositoryUrl} cannot be fetched: its address is not public, and the operator of this runner has not allowed it.`,
    });
  }
  const distrustful = await openMirrors({ dir: join(folder, 'distrustful'), authorities: undefined });
  await assert.rejects(distrustful.fetch({ ...own, commitRef: 'main' }), {
    kind: 'not_public',
    message: /this runner does not trust its certificate/,
  });
  assert.equal(forge.calls.length, called);
});

test('SSH at a port: the address has it, and other ports of the host are strangers', async (t) => {
  const { host, repository, fetchFails, mirrors, project, dir, folder } = await workplace(t, { sshConfig: undefined });
  const at = (port: number, name: string): string =>
    `ssh://${userInfo().username}@127.0.0.1:${port}${join(host.folder, name)}`;
  const lib = await createRepository(join(host.folder, 'lib.git'));
  const link = { submodule: await lib.commit({ files: { a: 'beside' } }) };
  const modules = { near: '../lib.git', far: at(host.port + 1, 'lib.git') };
  const sha = await repository.commit({
    files: {
      '.gitmodules': Object.entries(modules)
        .map(([path, url]) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`)
        .join(''),
      near: link,
      far: link,
      '.gitattributes': '*.bin filter=lfs -text\n',
      'a.bin': pointerTo('large'),
    },
  });
  const own = { ...project, repositoryUrl: at(host.port, 'app.git') };
  const large = { [oidOf('large')]: 'large' };
  await host.provide('git-lfs-transfer', lfsTransferProgram(large, '', join(host.folder, 'app.git')));
  assert.equal((await mirrors.fetch({ ...own, commitRef: 'main' })).sha, sha);
  const tree = join(folder, 'tree');
  const { sentences } = await mirrors.checkout({ ...own, sha, into: tree });
  assert.equal(await readFile(join(tree, 'near', 'a'), 'utf8'), 'beside');
  assert.match(sentences.join('\n'), /Submodule far is skipped: its address is not public/);
  assert.equal(await readFile(join(tree, 'a.bin'), 'utf8'), 'large');
  assert.match(
    await readFile(join(dir, 'known_hosts'), 'utf8'),
    new RegExp(`^\\[127\\.0\\.0\\.1\\]:${host.port} `, 'm'),
  );
  const { listing } = await mirrors.listRefs({ ...own, digest: null, timeoutMs: longestWait, keepMs: 0 });
  assert.match(listing ?? '', /refs\/heads\/main/);
  const pushed = { sha, localBranch: 'main', remoteUrl: at(host.port, 'lib.git'), remoteBranch: 'deployed' };
  await lib.git(['config', 'receive.denyCurrentBranch', 'ignore']);
  assert.deepEqual(await mirrors.push({ ...own, ...pushed }), { pushed: true, alreadyThere: false });
  await fetchFails('host_unreachable', 'main', { repositoryUrl: at(1, 'app.git') });
});
