import { request } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Receiver } from '../test/support/receiver.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

const samples = 200;
const pending = 10_000;

/** How long news takes from the change it tells of to its receiver, and what a dead receiver costs the others. */
export const webhooks: Benchmark = {
  name: 'webhooks',
  async run() {
    await using receiver = await Receiver.start();
    const env = { HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' };
    const [free, burdened] = [await startHeadrace(undefined, env), await startHeadrace(undefined, env)];
    try {
      const [sendFree, sendBurdened] = [await sender(free, receiver), await sender(burdened, receiver)];
      await burden(burdened);
      const body = receiver.calls[0]?.body ?? '';
      const times = { bare: [] as number[], free: [] as number[], burdened: [] as number[] };
      for (let turn = -20; turn < samples; turn += 1) {
        const measured = {
          bare: await barePost(receiver, body),
          free: await sendFree(),
          burdened: await sendBurdened(),
        };
        if (turn < 0) continue; // until the code is compiled
        for (const name of ['bare', 'free', 'burdened'] as const) times[name].push(measured[name]);
      }
      const [bare, alone, beside] = [median(times.bare), median(times.free), median(times.burdened)];
      return [
        {
          what: 'event to receiver in milliseconds, idle',
          value: alone,
          limit: { atMost: 20 },
          from: `the middle of ${samples}`,
        },
        {
          what: 'event to receiver, over a bare HTTP POST',
          value: alone / bare,
          limit: { atMost: 10 },
          from: `${round(alone)} ms against ${round(bare)} ms`,
        },
        {
          what: `the same beside ${pending} deliveries to a dead receiver, over without`,
          value: beside / alone,
          limit: { atMost: 1.2 },
          from: `${round(beside)} ms against ${round(alone)} ms`,
        },
      ];
    } finally {
      await free.stop();
      await burdened.stop();
    }
  },
};

interface Item {
  id_str: string;
}

async function notify(service: Service, name: string, url: string): Promise<string> {
  const { id_str: project } = await call<Item>(service, '/projects', { name, repository_url: 'git@example.org:x.git' });
  const path = `/projects/${project}/notifications`;
  const form = { name: 'webhook', notifiable_type: 'build', 'options[url]': url };
  const { id_str: id } = await call<Item>(service, path, form);
  return `${path}/${id}`;
}

/** Has a delivery sent over and over; each time the milliseconds from the change in the store until it has arrived. */
async function sender(service: Service, receiver: Receiver): Promise<() => Promise<number>> {
  const path = await notify(service, 'quick', receiver.url);
  await receiver.received(receiver.calls.length + 1);
  const [delivery] = await call<Item[]>(service, `${path}/deliveries`);
  const id = BigInt(delivery?.id_str ?? '');
  return async () => {
    const [calls] = await Promise.all([
      receiver.received(receiver.calls.length + 1),
      call(service, `${path}/deliveries/${id}/redeliver`, {}),
    ]);
    return performance.timeOrigin + (calls.at(-1)?.at ?? 0) - changedAt(service, id);
  };
}

/** When the delivery was written, as the server noted it: the machine has one clock. */
function changedAt({ dataDir }: Service, id: bigint): number {
  const database = new DatabaseSync(join(dataDir, 'headrace.db'), { readOnly: true, timeout: 10_000 });
  const { since } = database.prepare('select since from deliveries where id = ?').get(id) as { since: number };
  database.close();
  return since;
}

/** A notification whose receiver does not exist, and a long line before it. */
async function burden(service: Service): Promise<void> {
  const id = BigInt((await notify(service, 'dead', 'http://127.0.0.1:9/')).split('/').at(-1) ?? '');
  const database = new DatabaseSync(join(service.dataDir, 'headrace.db'), { timeout: 10_000 });
  database.exec('begin immediate');
  const insert = database.prepare(
    `insert into deliveries (id, notification_id, position, event_type, payload, state, created_at, since)
     select ?, notification_id, ?, event_type, payload, 'pending', created_at, since from deliveries
     where notification_id = ? and position = 1`,
  );
  for (let at = 0n; at < BigInt(pending); at += 1n) insert.run(at + 1n, at + 2n, id);
  database.exec('commit');
  database.close();
}

/** The same bytes from this process, on a connection of its own. */
async function barePost(receiver: Receiver, body: string): Promise<number> {
  const startedAt = performance.now();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const arrived = receiver.received(receiver.calls.length + 1);
  const sent = request(receiver.url, { method: 'POST', agent: false }, (answer) =>
    answer.resume().once('end', resolve),
  );
  sent.once('error', reject).end(body);
  const at = (await arrived).at(-1)?.at ?? 0;
  await promise;
  return at - startedAt;
}
