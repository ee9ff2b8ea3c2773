import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate } from '../../src/db/migrate.ts';
import { openDatabase } from '../../src/db/open.ts';
import { appendLog, beginLog, removeLog } from '../../src/streams/logs.ts';
import { median } from './report.ts';

const chunk = 1024 * 1024;
const rounds = 7;

/**
 * Milliseconds to store a log as it comes from a runner, with its lines and without: the way of a log that was begun
 * before lines were counted. By turns, because the machine has its moods.
 */
export async function appendedIn(size: number, line: string): Promise<{ indexed: number; plain: number }> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const db = await openDatabase({ url: join(folder, 'bench.db'), onLost: () => {} });
  await migrate(db);
  const bytes = Buffer.alloc(chunk, `${line}\n`);
  let id = 1n;
  const append = async (isCounted: boolean): Promise<number> => {
    id += 1n;
    const log = id;
    await db.transaction(async (trx) => {
      await beginLog(trx, log, null);
      if (!isCounted) await trx.updateTable('logs').set({ line_breaks: null }).where('id', '=', log).execute();
    });
    const startedAt = performance.now();
    for (let offset = 0; offset < size; offset += chunk) {
      await db.transaction((trx) => appendLog(db, trx, log, BigInt(offset), bytes));
    }
    const taken = performance.now() - startedAt;
    await db.transaction((trx) => removeLog(trx, log));
    return taken;
  };
  const taken = { indexed: [] as number[], plain: [] as number[] };
  try {
    await append(true); // to warm up
    for (let round = 0; round < rounds; round += 1) {
      taken.plain.push(await append(false));
      taken.indexed.push(await append(true));
    }
  } finally {
    await db.close();
    rmSync(folder, { recursive: true, force: true });
  }
  return { indexed: median(taken.indexed), plain: median(taken.plain) };
}
