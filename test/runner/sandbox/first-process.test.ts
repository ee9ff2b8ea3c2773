import assert from 'node:assert/strict';
import test from 'node:test';
import { rootUser, type Job } from '../../../src/runner/sandbox/types.ts';
import { open, usualLimits } from './support.ts';
import { lacks } from '../../support/machine.ts';

/**
 * The first process of a sandbox belongs to the same user as the steps that it runs, so a step can open its descriptors: at 4
 * what the runner tells it, at 5 what it reports. A step can spoil its own build by them, and nothing else:
 * neither of the two alone makes it pass, and the runner goes on.
 */
const tells = '/proc/1/fd/4';
const reports = '/proc/1/fd/5';

for (const user of [undefined, rootUser])
  test(
    `the descriptors of the first process give ${user?.name ?? 'a build'} nothing [promise: build-verdict]`,
    { skip: user && lacks('root') },
    async (t) => {
      const { sh } = await open(t);
      const steps = (first: string, second = 'echo second'): Job['steps'] => [
        { name: 'one', command: first },
        { name: 'two', command: second },
      ];
      /** For what may never end. Whatever has to end with its own status has all the time it needs. */
      const limits = { ...usualLimits, timeoutMs: 1000 };

      // It hears an instruction of the build, and ends: but the runner has not led it to its end.
      const told = await sh(steps(`printf '+exit 0\\n.\\n' >${tells}`), { user, limits });
      assert.notEqual(told.exitStatus, 0, JSON.stringify(told));
      assert.doesNotMatch(told.text, /second/);

      // A step that ended well by its own account did not.
      const forged = `printf 'end 0 0\\nstart 1\\nend 1 0\\nend 0 0\\n' >${reports}; exit 7`;
      assert.equal((await sh(steps(forged), { user })).exitStatus, 7);
      assert.equal((await sh(forged, { user })).exitStatus, 7, 'where it is the only one');

      // It is deaf, because what it reads is full of something else.
      const filling = `perl -MFcntl -e 'sysopen F, "${tells}", O_WRONLY | O_NONBLOCK or die; 1 while syswrite F, "y\\n";
        fork and exit; while (1) { syswrite F, "y\\n" or select undef, undef, undef, 0.001 }'`;
      const { reason, text } = await sh(steps(filling), { user, limits, graceMs: 100 });
      assert.deepEqual([reason, text], ['timed_out', '']);

      // It does not end by a signal from inside, and is no way out.
      const ways = [
        'kill -KILL 1',
        'kill -STOP 1',
        'ls /proc/1/root/root/.. /proc/1/cwd/../.. | grep -x work',
        'cat /proc/1/fd/6 /proc/1/fd/8',
      ];
      const kept = await sh(
        steps(`set +e; ${ways.map((way) => `(${way}) 2>/dev/null`).join('; ')}; true`, 'echo still there'),
        {
          user,
        },
      );
      assert.deepEqual([kept.exitStatus, kept.text], [0, 'still there\n']);
    },
  );
