import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { statSync } from 'node:fs';
import { test } from 'node:test';
import { unprivilegedRoot } from '../../support/confined.ts';
import { cleanUpAfterwards } from '../../support/folders.ts';
import { startInstallation } from '../../support/installation.ts';
import { lacks } from '../../support/machine.ts';
import { longestWait } from '../../support/pauses.ts';
import { commandsWith } from '../../support/process-list.ts';

const afterwards = cleanUpAfterwards();

test(
  'a server builds as an ordinary user does, where root is not allowed what root of a machine is',
  { timeout: longestWait, skip: lacks('mounts') },
  async (t) => {
    const database = { kind: 'sqlite', emptyUrl: async () => '', afterwards } as const;
    const installation = await startInstallation(database, {}, { within: unprivilegedRoot });
    const project = await installation.project();
    // The number names the process for whoever looks from outside.
    const number = String(randomInt(1e6, 1e9));
    const suite = await project.suite(t, 'who', `if unshare --user true; then exit 1; fi; echo ready; sleep ${number}`);
    const request = await project.ask('main');
    await project.untilLogged(suite, /ready/);
    const owners = commandsWith(`sleep\0${number}\0`).map((pid) => statSync(`/proc/${pid}`).uid);
    assert.ok(
      owners.length > 0 && owners.every((uid) => uid >= 1_900_000_000),
      `builds are not root: ${owners.join()}`,
    );
    await project.cancel(request);
    assert.equal((await project.end(request)).build_state, 'cancelled');
  },
);
