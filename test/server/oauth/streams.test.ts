import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { findUser } from '../../../src/server/auth/users.ts';
import { revoke } from '../../../src/server/oauth/allowed.ts';
import { registerApplication } from '../../support/applications.ts';
import { Listener } from '../../support/firehose.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

describeWithRunnerOnOne(
  'a stream',
  (service, runner) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });

    test('ends for a reader whose token was revoked, and for nobody else', async () => {
      const application = await registerApplication(service, alice);
      const token = await application.token(alice, ['commits']);
      const { task, path } = await runningBuild(alice, runner);
      const byToken = new Listener(await service.api.open(`${path}/firehose?oauth_token=${token}`, {}));
      const byKey = await Listener.open(alice, `${path}/firehose`);
      await task.writeLog('before\n');
      for (const listener of [byToken, byKey]) {
        await listener.until(({ data }) => data.text === 'before\n');
      }
      const { id = 0n } = (await findUser(service.store.db.read, alice.email)) ?? {};
      await service.store.db.transaction((trx) => revoke(trx, id, application.id));
      const ended = byToken.rest();
      let isOver = false;
      for (let word = 0; word < 300 && !isOver; word += 1) {
        await task.writeLog(`after ${word}\n`);
        isOver = await Promise.race([ended.then(() => true), pause(50, false)]);
      }
      assert.ok(isOver, 'it heard three hundred words after it was revoked');
      await task.writeLog('a secret\n');
      await task.exit(0);
      assert.doesNotMatch(JSON.stringify(await ended), /a secret/);
      assert.match(JSON.stringify(await byKey.rest()), /a secret.*passed.*end/);
    });
  },
  { streamPauseMs: 50 },
);
