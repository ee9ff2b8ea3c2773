import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { packLog } from '../../../src/server/streams/pack-log.ts';
import { onEveryDatabase } from '../../support/databases.ts';
import { Listener } from '../../support/firehose.ts';
import { ScriptedRunner, Task } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

interface Lines {
  from: number;
  total: number;
  lines: { number: number; offset: number; text: string }[];
}

const chunks = 120;
/** Ends in the middle of lines, and of characters. */
const whole = Buffer.from(Array.from({ length: 3000 }, (_, at) => `line ${at + 1} – says €${at}\n`).join(''));
const chunkSize = Math.ceil(whole.length / chunks);

/** A runner whose connection moves from one server to the other sends again what it heard no answer for. */
describe('a log that two servers take and show', () => {
  onEveryDatabase((database) => {
    let services: [Service, Service];
    let runners: [ScriptedRunner, ScriptedRunner];
    let readers: [User, User];
    before(async () => {
      const url = database.kind === 'postgres' ? { database_url: await database.emptyUrl() } : {};
      const first = new Service(database, { settings: url });
      await first.start();
      const shared = {
        ...url,
        master_key_file: join(first.folder, 'master.key'),
        blob_url: `file://${first.folder}/blobs`,
      };
      // On SQLite there is one server alone.
      const second = database.kind === 'postgres' ? new Service(database, { settings: shared }) : first;
      if (second !== first) await second.start();
      services = [first, second];
      runners = [await ScriptedRunner.start(first.store), await ScriptedRunner.start(second.store)];
      for (const { dispatch } of runners) database.afterwards(() => dispatch.close());
      const alice = await first.user();
      readers = [alice, second.signIn(alice.credentials)];
    });

    const linesOf = async (reader: User, path: string, query: string): Promise<Lines> =>
      (await reader.get(`${path}/log/lines?${query}`)).record as unknown as Lines;

    test('has each byte once, and the same lines, on both', async () => {
      const build = await runningBuild(readers[0], runners[0]);
      const { path } = build;
      const order = build.task.order;
      const tasks = [new Task(runners[0], order), new Task(runners[1], order)] as const;
      const listeners = await Promise.all(readers.map((reader) => Listener.open(reader, `${path}/firehose`)));
      for (let at = 0; at < chunks; at += 1) {
        const offset = at * chunkSize;
        const bytes = whole.subarray(offset, offset + chunkSize);
        // By turns; each third time to both at once, and each fifth time again, from a little earlier.
        const [here, there] = at % 2 === 0 ? tasks : ([tasks[1], tasks[0]] as const);
        const sent = at % 3 === 0 ? [here, there] : [here];
        for (const receipt of await Promise.all(sent.map((task) => task.send(offset, bytes)))) {
          assert.deepEqual(receipt, { taken: true });
        }
        if (at % 5 === 4) {
          const earlier = offset - 7;
          assert.deepEqual(await there.send(earlier, whole.subarray(earlier, offset + chunkSize)), { taken: true });
        }
        if (at % 20 === 10) {
          const seen = await Promise.all(readers.map((reader) => linesOf(reader, path, 'from=-2&limit=1')));
          assert.deepEqual(seen[0], seen[1]);
          const [line] = seen[0]?.lines ?? [];
          assert.equal(line?.text, `line ${line?.number} – says €${Number(line?.number) - 1}`);
        }
      }
      const exited = { kind: 'exited', status: 0 } as const;
      assert.deepEqual(await tasks[1].finishAt(whole.length, exited), { taken: true });
      const check = async (): Promise<void> => {
        for (const reader of readers) {
          assert.ok((await reader.get(`${path}/log.txt`)).text === whole.toString());
          const { total, lines } = await linesOf(reader, path, 'limit=5000');
          assert.deepEqual([total, lines.length], [3000, 3000]);
          assert.equal(lines.map(({ text }) => `${text}\n`).join(''), whole.toString());
          const last = lines.at(-1);
          assert.equal(last?.offset, whole.length - Buffer.byteLength(`${last?.text}\n`));
        }
      };
      await check();
      for (const listener of listeners) {
        const told = (await listener.rest()).filter(({ event }) => event === 'log');
        assert.equal(told.map(({ data }) => data.text).join(''), whole.toString());
      }
      await packLog(services[0].store.db, services[0].store.blobs, build.id);
      await check();
    });
  });
});
