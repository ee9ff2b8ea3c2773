import assert from 'node:assert/strict';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { openStore } from '../../../src/cli/operator/store.ts';
import { readConfig } from '../../../src/shared/config.ts';
import { onEveryDatabase, settingsFor, temporaryFolder } from '../../support/databases.ts';
import { serve } from '../../support/program.ts';
import { Receiver, reply, verified } from '../../support/receiver.ts';
import { User } from '../../support/user.ts';
import { moveDependency } from './support.ts';

describe('what a killed server was about to send', () => {
  onEveryDatabase((database) => {
    /** A server whose receiver has the first call and keeps it, while an event waits behind; then the server is killed. */
    async function killedAtWork(receiver: Receiver) {
      const folder = temporaryFolder();
      const env = { HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8', ...(await settingsFor(database)) };
      const server = await serve(database, folder, env);
      database.afterwards(() => rmSync(folder, { recursive: true, force: true }));
      const key = /API key\s+(\S+)/.exec(server.output)?.[1] ?? '';
      const admin = new User(server.api, { email: 'admin@localhost', password: '', api_key: key });
      const project = await admin.createProject();
      const dependency = await admin.createDependency();
      const fields = { 'options[url]': receiver.url, notifiable_type: 'dependency' };
      const { secret } = await admin.createNotification(project, fields);
      await receiver.received(1);
      const store = await openStore(readConfig({ flags: { data_dir: folder }, env }), (error) =>
        assert.fail(String(error)),
      );
      await moveDependency({ store }, dependency, 'compiling');
      await store.close();
      server.process.kill('SIGKILL');
      await server.exited;
      receiver.answer = reply(200);
      return { folder, env, secret };
    }

    async function assertSentAgain(receiver: Receiver, secret: unknown): Promise<void> {
      const [first, second, third] = await receiver.received(3);
      assert.ok(first && second && third);
      assert.equal(second.headers['webhook-id'], first.headers['webhook-id']);
      assert.equal(second.body, first.body);
      assert.equal(verified(second, secret).type, 'ping');
      assert.equal(verified(third, secret).type, 'dependency.compiling');
    }

    test('is sent when it comes back', async () => {
      await using receiver = await Receiver.start(() => {});
      const { folder, env, secret } = await killedAtWork(receiver);
      await serve(database, folder, env);
      const startedAt = Date.now(); // claims lapse fifteen seconds after somebody began to watch them
      await assertSentAgain(receiver, secret);
      assert.ok(Date.now() - startedAt < 10_000, 'and not only when its claims have lapsed');
    });

    if (database.kind !== 'postgres') return; // one machine has one SQLite
    test('is sent by another server', async () => {
      await using receiver = await Receiver.start(() => {});
      const { folder, env, secret } = await killedAtWork(receiver);
      const other = join(folder, 'elsewhere');
      mkdirSync(other);
      await serve(database, other, { ...env, HEADRACE_MASTER_KEY_FILE: join(folder, 'master.key') });
      await assertSentAgain(receiver, secret);
    });
  });
});
