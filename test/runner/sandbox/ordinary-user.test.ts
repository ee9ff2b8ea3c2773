import assert from 'node:assert/strict';
import { readlinkSync } from 'node:fs';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { tree } from './support.ts';
import { lacks } from '../../support/machine.ts';

const user = 60_913;

for (const network of ['none', 'internet', 'host']) {
  test(
    `an ordinary user has sandboxes too, with the network ${network}`,
    { skip: lacks('other users', 'mounts', ...(network === 'internet' ? ['slirp4netns', 'nft'] : [])) },
    async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'headrace-user-'));
      t.after(() => rm(folder, { recursive: true, force: true }));
      await tree(folder, { 'checkout/a.txt': 'original\n', 'dependency/tool': 'tool\n', 'other/tool': 'other\n' });
      await chmod(folder, 0o755);
      for (const path of ['', 'checkout', 'checkout/a.txt']) await chown(join(folder, path), user, user);
      const program = `
    const { openSandboxes } = await import(${JSON.stringify(new URL('../../../src/runner/sandbox/index.ts', import.meta.url).href)});
    const sandboxes = await openSandboxes({ stateDir: '${folder}/state', network: '${network}', isolation: 'required', log: () => {} });
    const server = (await import('node:net')).createServer((socket) => socket.end('through the door\\n')).listen(0, '127.0.0.1');
    await (await import('node:events')).once(server, 'listening');
    const ended = await sandboxes.run({
      door: { address: '192.0.2.9', port: 81, to: { host: '127.0.0.1', port: server.address().port } },
      id: 'a', steps: [{ name: 'suite', command: 'set +e; id -u; readlink /proc/self/ns/net; grep -o tap0 /proc/net/dev && timeout 5 bash -c "echo > /dev/tcp/169.254.169.254/80" 2>&1 | grep -o "No route.*" | uniq; grep -q tap0 /proc/net/dev && timeout 5 bash -c "cat </dev/tcp/192.0.2.9/81"; timeout 5 nft flush ruleset 2>/dev/null && echo flushed; grep CapBnd /proc/self/status; cat a.txt /srv/d/tool; echo x > a.txt; cat a.txt; mkdir -m 0 locked; setsid sleep 600 & exit 3' }],
      environment: {}, workspace: { checkout: '${folder}/checkout' }, mounts: [{ at: '/srv/d', layers: ['${folder}/dependency', '${folder}/other'] }],
      limits: { memoryBytes: 1e9, processes: 1000, timeoutMs: 60000 }, output: (chunk) => void process.stdout.write(chunk), signal: new AbortController().signal,
    });
    await sandboxes.close();
    server.close();
    const { used, ...shown } = ended;
    console.log(JSON.stringify(shown), Number.isInteger(used.networkSent), (await import('node:fs')).readdirSync('${folder}/state').length);`;
      // Where udev runs, everybody may open the device for tunnels. Other machines have it for root alone, so in here there
      // is one as udev makes it.
      await run('mknod', ['-m', '666', join(folder, 'tun'), 'c', '10', '200']);
      const begin = `mount --bind ${folder}/tun /dev/net/tun && exec setpriv --reuid ${user} --regid ${user} --clear-groups -- "$@"`;
      const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
      const ran = await run('unshare', ['--mount', 'sh', '-c', begin, 'sh', ...node], {
        env: { PATH: process.env.PATH ?? '' },
      });
      const [id, whose = '', ...said] = (ran.stdout.toString() + ran.stderr.toString()).split('\n');
      assert.equal(id, '1000', ran.stderr.toString());
      assert.equal(whose === readlinkSync('/proc/self/ns/net'), network === 'host', whose);
      const [reached, refused] =
        network === 'internet'
          ? ['tap0\nNo route to host\nthrough the door\n', ',"refused":["169.254.169.254 port 80"]']
          : ['', ''];
      assert.equal(
        said.join('\n'),
        `${reached}CapBnd:\t0000000000000000\noriginal\nother\nx\n{"exitStatus":3,"step":"suite","reason":null${refused}} ${network !== 'host'} 0\n`,
      );
    },
  );
}
