import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import { openCheckouts } from '../../../src/runner/checkouts.ts';
import type { MirrorsOptions } from '../../../src/runner/git/mirrors.ts';
import { longestWait } from '../../support/pauses.ts';
import { createRepository, type Repository } from '../../support/repository.ts';
import { startHttpsGitHost, type HttpsGitHost } from '../../support/https-git.ts';
import { workplace, type Workplace } from './workplace.ts';

interface Place extends Workplace {
  open: HttpsGitHost;
  lib: Repository;
  /** Commits submodules at these addresses, the first as `lib`, and answers the SHA of the outer commit. */
  naming: (urls: string | readonly string[], commit: string) => Promise<string>;
  /** Checks it out, and answers the folder with what is lacking. */
  checkOut: (sha: string) => Promise<{ tree: string; misses: string[]; areLasting: boolean }>;
  /** The same, with a second for hosts of submodules. The commit itself is fetched before, without haste. */
  checkOutHastily: Place['checkOut'];
}

/** The tests' host is on loopback, which nobody may reach but where an operator has allowed it. */
const loopback = ['127.0.0.0/8', '::1/128'];

async function publicPlace(t: TestContext, options: Partial<MirrorsOptions> = {}): Promise<Place> {
  const open = await startHttpsGitHost();
  t.after(() => open.close());
  const place = await workplace(t, {
    ...options,
    authorities: open.ca,
    rules: { mayCall: publicAddressFilter(loopback), ...options.rules },
  });
  const lib = await createRepository(join(open.folder, 'lib.git'));
  let count = 0;
  const checkOut = async (sha: string, mirrors = place.mirrors) => {
    const tree = join(place.folder, `tree-${++count}`);
    const { sentences, areLasting } = await mirrors.checkout({ ...place.project, sha, into: tree });
    return { tree, misses: sentences, areLasting };
  };
  return {
    ...place,
    open,
    lib,
    naming: (urls, commit) => {
      const named = [urls].flat().map((url, at) => ({ url, path: at === 0 ? 'lib' : `lib-${at}` }));
      const modules = named.map(({ url, path }) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${url}\n`);
      const links = Object.fromEntries(named.map(({ path }) => [path, { submodule: commit }]));
      return place.repository.commit({ files: { '.gitmodules': modules.join(''), ...links } });
    },
    checkOut: (sha) => checkOut(sha),
    checkOutHastily: async (sha) => {
      await place.fetch(sha);
      return checkOut(sha, await place.openMirrors({ connectSeconds: 1 }));
    },
  };
}

const fileIn = (tree: string, ...path: string[]): Promise<string> => readFile(join(tree, ...path), 'utf8');

test('a public submodule is fetched over https, without any credentials [promise: git-keys]', async (t) => {
  const { open, lib, naming, checkOut, host, project } = await publicPlace(t);
  const first = await lib.commit({ files: { a: 'first' } });
  const { tree, misses } = await checkOut(await naming(open.url('lib.git', 'someone:letmein'), first));
  assert.deepEqual(misses, []);
  assert.equal(await fileIn(tree, 'lib', 'a'), 'first');
  assert.match(await fileIn(tree, 'lib', '.git', 'config'), new RegExp(`url = "${open.url('lib.git')}"`));
  for (const { headers } of open.calls) assert.equal(headers.authorization, undefined);
  const known = await checkOut(await naming(open.url('lib.git'), first));
  assert.equal(await fileIn(known.tree, 'lib', 'a'), 'first');
  // What came since is fetched into the same mirror, with what is common left out.
  for (let number = 0; number < 40; number += 1) await lib.commit();
  const last = await lib.commit({ files: { a: 'last' } });
  const later = await checkOut(await naming(`${open.url('lib.git')}/`, last));
  assert.equal(await fileIn(later.tree, 'lib', 'a'), 'last');
  assert.equal(host.logins(), 1);
  assert.ok(
    open.calls.every(({ path }) => path.startsWith('/lib.git/')),
    project.repositoryUrl,
  );
});

test('a submodule of a public submodule is found beside it, and never with the key of the project', async (t) => {
  const { open, host, lib, naming, checkOut } = await publicPlace(t);
  const inner = await createRepository(join(open.folder, 'inner.git'));
  const secret = await createRepository(join(host.folder, 'secret.git'));
  const [innerSha, secretSha] = [await inner.commit({ files: { b: 'inner' } }), await secret.commit()];
  const sha = await lib.commit({
    files: {
      '.gitmodules':
        '[submodule "i"]\n\tpath = deep/inner\n\turl = ../inner.git\n' +
        `[submodule "s"]\n\tpath = stolen\n\turl = ${host.url('secret.git')}\n`,
      'deep/inner': { submodule: innerSha },
      stolen: { submodule: secretSha },
    },
  });
  const { tree, misses, areLasting } = await checkOut(await naming(open.url('lib.git'), sha));
  assert.equal(await fileIn(tree, 'lib', 'deep', 'inner', 'b'), 'inner');
  assert.equal(misses.length, 1);
  assert.match(misses[0] ?? '', /Submodule stolen is skipped.*key of the project is not used/);
  assert.deepEqual(await readdir(join(tree, 'lib', 'stolen')), []);
  assert.equal(areLasting, true);
});

test('a submodule that is not public or does not answer is left out, and the log says so', async (t) => {
  const { open, lib, naming, checkOut, checkOutHastily } = await publicPlace(t);
  const sha = await lib.commit();
  open.instead = ({ url = '', method }, response) => {
    const status = /^\/status-(\d+)/.exec(url)?.[1];
    if (status !== undefined) response.writeHead(Number(status)).end();
    else if (url.startsWith('/page')) response.end('<html>Welcome</html>');
    else if (url.startsWith('/lib.git') && method === 'POST') {
      response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' });
      response.write('0010');
      setImmediate(() => response.destroy());
    } else return url.startsWith('/silent');
    return true;
  };
  const never: [url: string, why: RegExp][] = [
    [open.url('nothing.git'), /^Submodule lib is skipped: .*anonymous access \(404\) \(https:.*nothing\.git\)/],
    [open.url('status-401'), /anonymous access \(401\)/],
    [open.url('status-403'), /anonymous access \(403\)/],
    [open.url('status-204'), /no git repository/],
    [open.url('page'), /no git repository/],
    ...['http://localhost/lib.git', 'git://x/lib.git', 'file:///etc', 'ext::sh -c id'].map((url): [string, RegExp] => [
      url,
      /is skipped: .*neither of the form user@host:path/,
    ]),
    ['http://me:secretword@localhost/lib.git', /skipped: "http:\/\/localhost/],
  ];
  const lasting = await checkOut(
    await naming(
      never.map(([url]) => url),
      sha,
    ),
  );
  never.forEach(([url, why]) =>
    assert.ok(
      lasting.misses.some((miss) => why.test(miss)),
      url,
    ),
  );
  assert.equal(lasting.misses.length, never.length);
  assert.equal(lasting.areLasting, true);
  assert.ok(!lasting.misses.join('').includes('secretword'));
  assert.deepEqual(await readdir(join(lasting.tree, 'lib')), []);

  for (const [repository, why] of [
    ['status-500', /answers 500/],
    ['status-429', /answers 429/],
    ['silent', /does not answer/],
    ['lib.git', /closed the connection early/],
  ] as const) {
    const taking = repository === 'silent' ? checkOutHastily : checkOut;
    const passing = await taking(await naming([open.url(repository), open.url('beside')], sha));
    assert.match(passing.misses[0] ?? '', why);
    // A host in trouble is not asked for the next one.
    assert.match(passing.misses[1] ?? '', /skipped: its host does not answer \(https:.*beside\)/);
    assert.equal(passing.areLasting, false);
  }
  open.instead = () => false;
  assert.deepEqual((await checkOut(await naming(open.url('lib.git'), sha))).misses, []);
});

test('a work tree that lacks something for the moment serves nobody after those who waited for it', async (t) => {
  const { open, lib, naming, mirrors, project, folder } = await publicPlace(t);
  const sha = await naming(open.url('lib.git'), await lib.commit({ files: { a: '1' } }));
  const checkouts = await openCheckouts(join(folder, 'checkouts'), mirrors, assert.fail);
  const take = () => checkouts.of(project, { sha, isFork: false }, () => {}, project.signal);
  open.instead = (_, response) => (response.writeHead(503).end(), true);
  const waiting = await Promise.all([take(), take()]);
  for (const { path, misses } of waiting) {
    assert.equal(path, waiting[0].path);
    assert.match(misses[0] ?? '', /answers 503/);
  }
  open.instead = () => false;
  using whole = await take();
  assert.deepEqual(whole.misses, []);
  assert.equal(await fileIn(whole.path, 'lib', 'a'), '1');
  waiting[0][Symbol.dispose]();
  assert.deepEqual(await readdir(join(waiting[1].path, 'lib')), [], 'it stays while somebody uses it');
  waiting[1][Symbol.dispose]();
  using again = await take();
  assert.equal(again.path, whole.path);
  while ((await readdir(join(folder, 'checkouts'))).length > 1) await pause(5);
});

test('a host whose certificate nobody vouches for is not spoken to', async (t) => {
  const { open, lib, naming, openMirrors, project, folder } = await publicPlace(t);
  const sha = await naming(open.url('lib.git'), await lib.commit());
  const distrustful = await openMirrors({
    dir: join(folder, 'other'),
    authorities: undefined,
    rules: { mayCall: publicAddressFilter(loopback) },
  });
  const { sentences } = await distrustful.checkout({ ...project, sha, into: join(folder, 'tree') });
  assert.match(sentences[0] ?? '', /this runner does not trust its certificate/);
  assert.equal(open.calls.length, 0);
});

test('private addresses are not called, by whatever way a repository leads there [promise: git-addresses]', async (t) => {
  const names = new Map([['rebinds.test', ['127.0.0.1']]]);
  const looked: string[] = [];
  const resolve: NonNullable<NonNullable<MirrorsOptions['rules']>['resolve']> = async (host) => {
    looked.push(host);
    const answers = names.get(host);
    // A name that says something public the first time, and something private ever after.
    if (host === 'turns.test') return looked.filter((one) => one === host).length === 1 ? [publicOne] : [privateOne];
    return answers
      ? answers.map((address) => ({ address, family: 4 }))
      : [{ address: host, family: host.includes(':') ? 6 : 4 }];
  };
  const [publicOne, privateOne] = [
    { address: '192.0.43.10', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ];
  const { open, lib, naming, checkOut, checkOutHastily } = await publicPlace(t, {
    rules: { resolve, mayCall: publicAddressFilter([]) },
  });
  const sha = await lib.commit();
  const urls = [
    `https://rebinds.test:${open.port}/lib.git`,
    `https://127.0.0.1:${open.port}/lib.git`,
    `https://0x7f000001:${open.port}/lib.git`,
    `https://2130706433:${open.port}/lib.git`,
    `https://[::1]:${open.port}/lib.git`,
    `https://[::ffff:127.0.0.1]:${open.port}/lib.git`,
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/lib.git',
  ];
  const all = await checkOut(await naming(urls, sha));
  assert.equal(all.misses.length, urls.length);
  for (const miss of all.misses) assert.match(miss, /its address is not public/);
  // The connection goes to the address that was judged, not to what the name says a moment later.
  const { misses } = await checkOutHastily(await naming(`https://turns.test:${open.port}/lib.git`, sha));
  assert.match(misses[0] ?? '', /does not answer|not public/);
  assert.equal(looked.filter((host) => host === 'turns.test').length, 1);
  assert.equal(open.calls.length, 0);
});

test('a public host cannot send us elsewhere, but to where everybody may go [promise: git-addresses]', async (t) => {
  let called = 0;
  const inside = createServer((_, response) => {
    called += 1;
    response.end('inside');
  });
  inside.listen(0, '127.0.0.2');
  await once(inside, 'listening');
  t.after(() => inside.close());
  const { port } = inside.address() as AddressInfo;
  const { open, lib, naming, checkOut } = await publicPlace(t, {
    rules: { mayCall: publicAddressFilter(['127.0.0.1/32', '::1/128']) },
  });
  const sha = await lib.commit({ files: { a: '1' } });
  const query = '/info/refs?service=git-upload-pack';
  const leading = [
    `http://127.0.0.2:${port}${query}`,
    `https://127.0.0.2:${port}${query}`,
    `http://localhost:${open.port}/lib.git${query}`,
    'file:///etc/passwd',
    'https://',
    `https://localhost:${open.port}/old-5${query}`,
    `https://localhost:${open.port}/lib.git/HEAD`,
    `${open.url('lib.git', 'a:b')}${query}`,
  ];
  open.instead = ({ url = '' }, response) => {
    const to = leading[Number(/^\/old-(\d+)/.exec(url)?.[1])];
    if (to !== undefined) response.writeHead(302, { location: to }).end();
    return to !== undefined;
  };
  const bad = await checkOut(
    await naming(
      leading.slice(0, -1).map((_, at) => open.url(`old-${at}`)),
      sha,
    ),
  );
  assert.equal(bad.misses.length, leading.length - 1, bad.misses.join('\n'));
  assert.equal(called, 0);
  const { tree, misses } = await checkOut(await naming(open.url(`old-${leading.length - 1}`), sha));
  assert.deepEqual(misses, []);
  assert.equal(await fileIn(tree, 'lib', 'a'), '1');
  assert.ok(open.calls.every(({ headers }) => headers.authorization === undefined));
});

test('what a public host sends is bounded, and its objects are checked [promise: git-limits]', async (t) => {
  const { open, lib, naming, checkOut } = await publicPlace(t, {
    checkoutBytes: 4 * 1024 * 1024,
    timeoutMs: longestWait,
  });
  const sha = await lib.commit();
  const outer = await naming(open.url('lib.git'), sha);
  // An answer without end.
  let sent = 0;
  open.instead = (request, response) => {
    if (request.method === 'GET') return false;
    response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-result' });
    const line = Buffer.concat([Buffer.from('fff0\x02'), Buffer.alloc(0xfff0 - 5, 120)]);
    const more = (): void => {
      while (!response.destroyed && response.write(line)) sent += line.length;
      sent += line.length;
    };
    response.on('drain', more);
    more();
    return true;
  };
  await assert.rejects(checkOut(outer).then(({ misses }) => Promise.reject(new Error(misses[0]))));
  assert.ok(sent < 256 * 1024 * 1024, `${sent}`);
  // A greeting without end.
  open.instead = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' });
    const more = (): void => {
      while (!response.destroyed && response.write('x'.repeat(65_536)));
    };
    response.on('drain', more);
    more();
    return true;
  };
  assert.match((await checkOut(outer)).misses[0] ?? '', /more than the checkout limit/);
  // One that only knows the old protocol.
  open.instead = (request) => {
    delete request.headers['git-protocol'];
    return false;
  };
  assert.deepEqual((await checkOut(outer)).misses, []);
});
