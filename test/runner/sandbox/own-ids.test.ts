import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { entry, freeIds, ordinary } from '../../support/ordinary-runner.ts';
import { lacks } from '../../support/machine.ts';

const root = join(import.meta.dirname, 'root.test.ts');

/** The same tests in the user namespace of an ordinary user with IDs of /etc/subuid, as cli/subordinate-ids.ts makes it. */
test(
  'root of a sandbox is as strong, and no stronger, where the runner is an ordinary user [promise: build-privileges]',
  { skip: lacks('other users', 'mounts') },
  async (t) => {
    const { folder, as } = ordinary((cleanUp) => t.after(cleanUp));
    const ids = freeIds();
    // Where udev runs, everybody may open the device for tunnels.
    const tun = join(folder, '..', 'tun');
    await run('mknod', ['-m', '666', tun, 'c', '10', '200']);
    const maps = [`--map-users=${ids},1,65536`, `--map-groups=${ids},1,65536`];
    const begin = ['unshare', '--user', '--map-root-user', ...maps, process.execPath];
    const tests = ['--disable-warning=ExperimentalWarning', '--test', '--test-reporter=tap', root];
    const [program = '', ...args] = [...as(entry(ids), `mount --bind ${tun} /dev/net/tun`), ...begin, ...tests];
    const { PATH } = process.env;
    const ran = await run(program, args, { env: { PATH, TMPDIR: folder } });
    const said = ran.stdout.toString() + ran.stderr.toString();
    assert.equal(ran.status, 0, said);
    assert.match(said, /# pass 5\n# fail 0\n# cancelled 0\n# skipped 1\n/);
  },
);
