import type { Database } from '../db/open.ts';
import { isForeignKeyViolation } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { countRefused } from './hook-deliveries.ts';

/**
 * Calls that were refused before their sender was known. Users must see them, but untrusted senders must not fill the
 * disk. So one row per hook, reason and hour counts them, written at intervals.
 */
export type RefusalKind = keyof typeof reasons;

const reasons = {
  proof: 'The proof was missing or wrong',
  size: 'The payload was longer than 25 MB',
  body: 'The payload was interrupted or too slow',
};

export interface Refusals {
  note(hookId: bigint, kind: RefusalKind): void;
  close(): Promise<void>;
}

export interface RefusalDeps {
  db: Database;
  ids: IdSource;
  onTrouble: (error: unknown) => void;
  pauseMs?: number;
}

export function countRefusals({ db, ids, onTrouble, pauseMs = 5000 }: RefusalDeps): Refusals {
  const gathered = new Map<string, { hookId: bigint; kind: RefusalKind; count: number }>();
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();

  const write = async (): Promise<void> => {
    const all = [...gathered.values()];
    gathered.clear();
    for (const { hookId, kind, count } of all) {
      const hour = new Date().toISOString().slice(0, 13);
      const reason = (calls: number): string =>
        `${reasons[kind]}: ${calls} ${calls === 1 ? 'call' : 'calls'} since ${hour}:00 UTC.`;
      const refused = { key: `refused ${kind} ${hour}`, more: count, reason };
      await db
        .transaction((trx) => countRefused({ db, trx, ids }, hookId, refused))
        .catch((error: unknown) => {
          if (!isForeignKeyViolation(error)) onTrouble(error); // the hook was deleted meanwhile
        });
    }
  };
  const flush = (): void => {
    timer = undefined;
    writing = writing.then(write);
  };

  return {
    note(hookId, kind) {
      const name = `${hookId} ${kind}`;
      const entry = gathered.get(name) ?? { hookId, kind, count: 0 };
      entry.count += 1;
      gathered.set(name, entry);
      timer ??= setTimeout(flush, pauseMs).unref();
    },
    async close() {
      clearTimeout(timer);
      flush();
      await writing;
    },
  };
}
