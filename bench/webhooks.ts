import { request } from 'node:http';
import { sql } from 'kysely';
import { openDatabase, type Database } from '../src/server/db/open.ts';
import { Receiver } from '../test/support/receiver.ts';
import { onBoth, type DatabaseName } from './support/databases.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

const samples = 200;
const pending = 10_000;

/** Time from a change until its receiver has the webhook, and the cost of a dead receiver for other receivers. */
export const webhooks: Benchmark = {
  name: 'webhooks',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
      const burdened = await databases.settingsFor(name);
      return measure(name, settings, burdened);
    });
    return [...sqlite, ...postgres];
  },
};

async function measure(name: DatabaseName, free: NodeJS.ProcessEnv, burdened: NodeJS.ProcessEnv): Promise<Figure[]> {
  await using stack = new AsyncDisposableStack();
  const receiver = stack.use(await Receiver.start());
  const begin = async (settings: NodeJS.ProcessEnv): Promise<Sender> => {
    const service = await startHeadrace(undefined, { ...settings, HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' });
    stack.defer(() => service.stop());
    const db = await openDatabase({ url: service.databaseUrl });
    stack.defer(() => db.close());
    return { service, db, send: await sender(service, db, receiver) };
  };
  const [quick, loaded] = [await begin(free), await begin(burdened)];
  await burden(loaded);
  const body = receiver.calls[0]?.body ?? '';
  const times = { bare: [] as number[], free: [] as number[], burdened: [] as number[] };
  for (let turn = -20; turn < samples; turn += 1) {
    const measured = { bare: await barePost(receiver, body), free: await quick.send(), burdened: await loaded.send() };
    if (turn < 0) continue; // warms up: the code is compiled
    for (const which of ['bare', 'free', 'burdened'] as const) times[which].push(measured[which]);
  }
  const [bare, alone, beside] = [median(times.bare), median(times.free), median(times.burdened)];
  return [
    {
      what: `event to receiver in milliseconds on ${name}, idle`,
      value: alone,
      limit: { atMost: 20 },
      from: `the middle of ${samples}`,
    },
    {
      what: `event to receiver on ${name}, over a bare HTTP POST`,
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
}

interface Sender {
  service: Service;
  db: Database;
  send: () => Promise<number>;
}

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

/** Sends one delivery repeatedly. Each call returns the milliseconds from the change in the store to the arrival. */
async function sender(service: Service, db: Database, receiver: Receiver): Promise<() => Promise<number>> {
  const path = await notify(service, 'quick', receiver.url);
  await receiver.received(receiver.calls.length + 1);
  const [delivery] = await call<Item[]>(service, `${path}/deliveries`);
  const id = BigInt(delivery?.id_str ?? '');
  return async () => {
    const [calls] = await Promise.all([
      receiver.received(receiver.calls.length + 1),
      call(service, `${path}/deliveries/${id}/redeliver`, {}),
    ]);
    return performance.timeOrigin + (calls.at(-1)?.at ?? 0) - (await changedAt(db, id));
  };
}

/** The server's time of writing the delivery. It is comparable, because the machine has one clock. */
async function changedAt({ read }: Database, id: bigint): Promise<number> {
  const delivery = read.selectFrom('webhook_deliveries').select('since').where('id', '=', id);
  return Number((await delivery.executeTakeFirstOrThrow()).since);
}

/** A notification whose receiver does not exist, with a long queue of deliveries. */
async function burden({ service, db }: Sender): Promise<void> {
  const id = BigInt((await notify(service, 'dead', 'http://127.0.0.1:9/')).split('/').at(-1) ?? '');
  await db.transaction((trx) =>
    sql`
      insert into webhook_deliveries (id, notification_id, position, event_type, payload, state, created_at, since)
      with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < ${sql.lit(pending)})
      select number, notification_id, number + 1, event_type, payload, 'pending', created_at, since
      from webhook_deliveries, numbers where notification_id = ${id} and position = 1
    `.execute(trx),
  );
  if (db.kind === 'postgres') await sql`analyze deliveries`.execute(db.read);
}

/** The same bytes from this process, on a new connection. */
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
