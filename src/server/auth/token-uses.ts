import type { Database } from '../db/open.ts';

/** When and from where tokens were last used. Written at intervals, because a write with each call would cost too much. */
export interface TokenUses {
  note(id: bigint, address: string): void;
  close(): Promise<void>;
}

interface TokenUsesDeps {
  db: Database;
  onTrouble: (error: unknown) => void;
  pauseMs?: number;
}

export function noteTokenUses({ db, onTrouble, pauseMs = 2000 }: TokenUsesDeps): TokenUses {
  const gathered = new Map<bigint, { at: bigint; from: string }>();
  let timer: NodeJS.Timeout | undefined;
  let writing = Promise.resolve();

  const write = async (): Promise<void> => {
    // In one order, so that two servers do not wait for each other.
    const uses = [...gathered].toSorted(([one], [other]) => (one < other ? -1 : 1));
    gathered.clear();
    if (uses.length === 0) return;
    await db
      .transaction(async (trx) => {
        for (const [id, { at, from }] of uses)
          await trx
            .updateTable('user_tokens')
            .set({ last_used_at: at, last_used_from: from })
            .where('id', '=', id)
            .where((of) => of.or([of('last_used_at', 'is', null), of('last_used_at', '<', at)]))
            .execute();
      })
      .catch(onTrouble);
  };
  const flush = (): void => {
    timer = undefined;
    writing = writing.then(write);
  };

  return {
    note(id, from) {
      gathered.set(id, { at: BigInt(Date.now()), from });
      timer ??= setTimeout(flush, pauseMs).unref();
    },
    async close() {
      clearTimeout(timer);
      flush();
      await writing;
    },
  };
}
