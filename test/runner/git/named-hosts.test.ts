import assert from 'node:assert/strict';
import { once } from 'node:events';
import { appendFile, readdir, readFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { publicAddressFilter } from '../../../src/shared/lib/address-filter.ts';
import type { MirrorsOptions } from '../../../src/runner/git/mirrors.ts';
import { createRepository } from '../../support/repository.ts';
import { startGitHost } from '../../support/sshd.ts';
import { workplace } from './workplace.ts';

const { username } = userInfo();

/** A place whose repository names submodules at other hosts than its own, and a second host that takes the same key. */
async function placeWithTwo(t: TestContext, rules: NonNullable<MirrorsOptions['rules']>) {
  const place = await workplace(t, { rules });
  const second = await startGitHost({ name: 'second.test' });
  t.after(() => second.close());
  await second.authorize(place.key.publicKey);
  const lib = await createRepository(join(second.folder, 'lib.git'));
  const link = { submodule: await lib.commit({ files: { a: 'second' } }) };
  let count = 0;
  return {
    ...place,
    second,
    checkOut: async (...urls: string[]) => {
      const modules = urls.map((url, at) => `[submodule "m${at}"]\n\tpath = m${at}\n\turl = ${url}\n`).join('');
      const links = Object.fromEntries(urls.map((_, at) => [`m${at}`, link]));
      const sha = await place.repository.commit({ after: null, files: { '.gitmodules': modules, ...links } });
      const into = join(place.folder, `tree-${++count}`);
      return { into, misses: (await place.mirrors.checkout({ ...place.project, sha, into })).sentences };
    },
  };
}

test('no submodule over SSH leads to a private address, by whatever name [promise: git-addresses]', async (t) => {
  let calls = 0;
  const inside = createServer((socket) => {
    calls += 1;
    socket.destroy();
  });
  inside.listen(0, '127.0.0.1');
  await once(inside, 'listening');
  t.after(() => inside.close());
  const { port } = inside.address() as AddressInfo;
  const names: Record<string, string> = { 'rebinds.test': '127.0.0.1', 'inner.corp.test': '10.0.0.7' };
  const resolve = async (host: string) => [{ address: names[host] ?? host, family: host.includes(':') ? 6 : 4 }];
  const { host, second, repository, checkOut, log } = await placeWithTwo(t, {
    resolve,
    mayCall: publicAddressFilter([]),
  });
  await appendFile(
    host.sshConfig,
    `${await readFile(second.sshConfig, 'utf8')}Host inner\n  HostName %h.corp.test\nHost *\n  Port ${port}\n`,
  );
  const urls = [
    'git@10.0.0.5:x',
    'git@127.0.0.1:x',
    'git@[::1]:x',
    'git@[::ffff:127.0.0.1]:x',
    'git@169.254.169.254:x',
    'git@rebinds.test:x',
    'git@inner:x', // what the operator's configuration makes of it
    second.url('lib.git'), // the operator's word for a private host is none for repositories
    `someone-else@${host.name}:app.git`,
  ];
  const { into, misses } = await checkOut(...urls);
  const text = log();
  for (const [at, url] of urls.entries()) {
    const sentence = `Submodule m${at} is skipped: its address is not public, and the operator of this runner has not allowed it (${url}).`;
    assert.ok(misses.includes(sentence), `${sentence}\n${misses.join('\n')}`);
    assert.ok(text.includes(sentence));
    assert.deepEqual(await readdir(join(into, `m${at}`)), []);
  }
  assert.deepEqual([calls, second.logins(), host.logins()], [0, 0, 1]);
  // The host of the project's own repository is as private. Somebody of the project has entered it.
  const beside = await createRepository(join(host.folder, 'beside.git'));
  const link = { submodule: await beside.commit({ files: { b: 'beside' } }) };
  await repository.commit({
    files: { '.gitmodules': '[submodule "m"]\n\tpath = m\n\turl = ../sidecars.git\n', m: link },
  });
  assert.deepEqual((await checkOut()).misses, []);
});

test('a submodule over SSH comes from the very address that was judged [promise: git-addresses]', async (t) => {
  const looked: string[] = [];
  const resolve = async (host: string) => {
    looked.push(host);
    return [{ address: host === 'public.test' && looked.length === 1 ? '127.0.0.1' : '127.0.0.2', family: 4 }];
  };
  const { host, second, checkOut, dir } = await placeWithTwo(t, {
    resolve,
    mayCall: publicAddressFilter(['127.0.0.1/32']),
  });
  // Nobody but the judge knows an address of this name.
  await appendFile(host.sshConfig, `Host public.test\n  Port ${second.port}\n`);
  const { into, misses } = await checkOut(`${username}@public.test:lib.git`);
  assert.deepEqual(misses, []);
  assert.equal(await readFile(join(into, 'm0', 'a'), 'utf8'), 'second');
  assert.deepEqual(looked, ['public.test']);
  assert.match(
    await readFile(join(dir, 'known_hosts'), 'utf8'),
    new RegExp(`^\\[public\\.test\\]:${second.port} `, 'm'),
  );
});

test('a jump host is asked for the judged address, and is itself where the operator says [promise: git-addresses]', async (t) => {
  const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
  const { host, second, key, checkOut } = await placeWithTwo(t, {
    resolve,
    mayCall: publicAddressFilter(['127.0.0.1/32']),
  });
  const jump = await startGitHost({ name: 'jump.test' });
  t.after(() => jump.close());
  await jump.authorize(key.publicKey);
  const route = `Host public.test\n  Port ${second.port}\n  ProxyJump ${username}@jump.test\n`;
  await appendFile(host.sshConfig, route + (await readFile(jump.sshConfig, 'utf8')));
  const { misses } = await checkOut(`${username}@public.test:lib.git`);
  assert.deepEqual(misses, []);
  assert.deepEqual([second.logins(), jump.logins()], [1, 1]);
});
