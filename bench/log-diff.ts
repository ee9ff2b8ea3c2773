import { join } from 'node:path';
import { diffLogs } from '../src/server/briefs/log-diff.ts';
import { closeDiffThread } from '../src/server/briefs/log-diff.ts';
import { hunksOf } from '../src/server/briefs/hunks.ts';
import { openFileBlobs } from '../src/server/db/blobs.ts';
import { openDatabase } from '../src/server/db/open.ts';
import { appendLog, beginLog, completeLog } from '../src/server/streams/logs.ts';
import { packLog } from '../src/server/streams/pack-log.ts';
import { onBoth } from './support/databases.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { startHeadrace, type Service } from './support/servers.ts';

const size = 100 * 1024 * 1024;
const words =
  'compiled tested linked resolved fetched module server client package queue stream ok warning unused'.split(' ');

/** Compares two packed logs of 100 MB that differ in a hundred places. */
export const logDiff: Benchmark = {
  name: 'log-diff',
  async run(databases) {
    const { sqlite } = await onBoth(databases, async (settings) => {
      const service = await startHeadrace(undefined, settings);
      try {
        return await measure(service);
      } finally {
        await service.stop();
      }
    });
    return sqlite;
  },
};

async function measure(service: Service): Promise<Figure[]> {
  const db = await openDatabase({ url: service.databaseUrl });
  const blobs = await openFileBlobs(join(service.dataDir, 'blobs'), {
    take: async () => {},
    room: async () => Infinity,
  });
  try {
    for (const id of [1n, 2n]) {
      await db.transaction((trx) => beginLog(trx, id, null));
      let offset = 0n;
      for (const piece of piecesOf(id === 2n)) {
        await db.transaction((trx) => appendLog(db, trx, id, offset, piece));
        offset += BigInt(piece.length);
      }
      await db.transaction((trx) => completeLog(db, trx, id));
      await packLog(db, blobs, id);
    }
    const parts = { database: db, db: db.read, blobs };
    const logs = { id: 1n, withId: 2n };
    const taken: number[] = [];
    const grown: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const before = process.memoryUsage.rss();
      let most = before;
      const watch = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5);
      const beganAt = performance.now();
      const diff = await diffLogs(parts, { ...logs, account: 1n, signal: new AbortController().signal });
      const { hunks } = await hunksOf(parts, logs, diff);
      taken.push(performance.now() - beganAt);
      clearInterval(watch);
      grown.push((most - before) / 1024 ** 2);
      if (hunks.length === 0 || !diff.isComplete) throw new Error('the logs were not compared');
    }
    return [
      {
        what: 'comparison of two logs of 100 MB, ms',
        value: median(taken),
        limit: { atMost: 1500 },
        from: taken.map(round).join(', '),
      },
      {
        what: 'comparison of two logs of 100 MB, memory, MB',
        value: median(grown),
        limit: { atMost: 50 },
        from: grown.map(round).join(', '),
      },
    ];
  } finally {
    await closeDiffThread(db);
    await blobs.close();
    await db.close();
  }
}

function* piecesOf(isOther: boolean): Generator<Buffer> {
  const random = numbers();
  let [length, line, text] = [0, 0, ''];
  while (length < size) {
    const some = Array.from({ length: 8 }, () => words[random() % words.length]).join(' ');
    const isChanged = isOther && line % 20_000 === 1000;
    const last = random();
    const said = `[${line}] ${some} ${isChanged ? 'error: shut' : last}\n`;
    line += 1;
    length += said.length;
    text += said;
    if (text.length < 1024 * 1024 - 1000) continue;
    yield Buffer.from(text);
    text = '';
  }
}

function numbers(): () => number {
  let seed = 1;
  return () => (seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff) >>> 8;
}
