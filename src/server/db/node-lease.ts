import { randomUUID } from 'node:crypto';
import { sql, type RawBuilder } from 'kysely';
import { createIds, nodeCount, type IdSource, type NodeIds } from '../../shared/lib/ids.ts';
import { isDatabaseFull, type Database } from './open.ts';

/**
 * Leases a node number for ids from the database, so no two processes use the same one at a time.
 *
 * The row of a number has the end of its lease and a mark, the latest time that its ids may contain. The next holder
 * starts above that mark. So a clock that was wrong, or differs between machines, cannot make an id twice. A process
 * that was stopped for longer than its lease makes no id until it has a lease again.
 *
 * The machine's clock may be set by hours while the process runs. So it is read only when the lease is taken or
 * renewed, with a mark that allows for it. In between, ids use the process's own clock, which cannot be set.
 */
export interface NodeLease {
  readonly ids: IdSource;
  renew(): Promise<void>;
  close(): Promise<void>;
}

export class LeaseLapsedError extends Error {
  constructor() {
    super('the lease on this server’s node number has expired; it is being renewed');
    this.name = 'LeaseLapsedError';
  }
}

const leaseLength = 60_000;

interface Terms {
  node: number;
  usedUntil: number;
  /** How far into the future ids may reach: the row's promise to the next holder. */
  mark: number;
  /** The machine's clock when the process's clock showed `at`. */
  time: number;
  at: number;
}

export async function leaseNode(db: Database, onTrouble: (error: unknown) => void): Promise<NodeLease> {
  const holder = randomUUID();
  let held: { terms: Terms; ids: NodeIds } | undefined;
  let renewal: Promise<void> | undefined;

  const begin = async (): Promise<void> => {
    const fresh = { terms: await take(db, holder) };
    held = Object.assign(fresh, { ids: idsUnder(() => fresh.terms) });
  };
  const extendOrBegin = async (): Promise<void> => {
    const extended = held && (await extend(db, holder, held.terms));
    if (held && extended) held.terms = extended;
    else await begin();
  };
  const renew = (): Promise<void> => {
    renewal ??= extendOrBegin().finally(() => (renewal = undefined));
    return renewal;
  };
  // A full disk must not prevent a start: until there is room, the server makes no ids.
  await renew().catch((error: unknown) => {
    if (!isDatabaseFull(error)) throw error;
    onTrouble(error);
  });
  const timer = setInterval(() => void renew().catch(onTrouble), leaseLength / 3);
  timer.unref();

  return {
    ids: {
      next: () => {
        if (!held) throw new LeaseLapsedError();
        return held.ids.next();
      },
    },
    renew,
    async close() {
      clearInterval(timer);
      await renewal?.catch(() => {}); // its caller gets the error
      if (!held) return;
      const { terms, ids } = held;
      const given = db.transaction((trx) =>
        trx
          .updateTable('id_nodes')
          .set({ leased_until: 0n, used_until: BigInt(ids.lastUsed()) })
          .where('node', '=', terms.node)
          .where('holder', '=', holder)
          .execute(),
      );
      await given.catch(onTrouble); // the lease expires anyway
    },
  };
}

function idsUnder(terms: () => Terms): NodeIds {
  const { node, usedUntil } = terms();
  const held = (): number => performance.now() - terms().at;
  return createIds(
    {
      node,
      usedUntil,
      mayUse(time) {
        if (held() > leaseLength || time > terms().mark) throw new LeaseLapsedError();
      },
    },
    () => Math.floor(terms().time + held()),
  );
}

function moment(): Pick<Terms, 'time' | 'at'> {
  return { time: Date.now(), at: performance.now() };
}

async function take(db: Database, holder: string): Promise<Terms> {
  for (;;) {
    const now = moment();
    const terms = await db.transaction(async (trx) => {
      const rows = await trx
        .selectFrom('id_nodes')
        .select(['node', 'used_until', 'leased_until', db.clock.as('now')])
        .orderBy('used_until')
        .execute();
      const choice = chooseNode(rows);
      const usedUntil = Number(choice.row?.used_until ?? 0n);
      const mark = Math.max(now.time, usedUntil) + 2 * leaseLength;
      const values = { holder, used_until: BigInt(mark), leased_until: leaseEnd(db) };
      // If two processes want the same number, the second sees the changed row and chooses again.
      const { numInsertedOrUpdatedRows: changed } = await trx
        .insertInto('id_nodes')
        .values({ node: choice.node, ...values })
        .onConflict((conflict) =>
          conflict
            .column('node')
            .doUpdateSet(values)
            .where('id_nodes.leased_until', '=', choice.row?.leased_until ?? -1n),
        )
        .executeTakeFirst();
      return changed === 1n ? { node: choice.node, usedUntil, mark, ...now } : undefined;
    });
    if (terms) return terms;
  }
}

type NodeRow = { node: number; used_until: bigint; leased_until: bigint; now: bigint };

/** A number whose mark has passed, else an unused number, else the number whose mark is least far ahead. */
function chooseNode(rows: NodeRow[]): { node: number; row?: NodeRow } {
  const free = rows.filter((row) => row.leased_until < row.now);
  const [best] = free;
  if (best && best.used_until <= BigInt(Date.now())) return { node: best.node, row: best };
  if (rows.length < nodeCount) return { node: rows.length };
  if (best) return { node: best.node, row: best };
  throw new Error(`all ${nodeCount} node numbers are leased`);
}

async function extend(db: Database, holder: string, { node, usedUntil, mark }: Terms): Promise<Terms | undefined> {
  const now = moment();
  const farther = Math.max(mark, now.time + 2 * leaseLength);
  const { numUpdatedRows } = await db.transaction((trx) =>
    trx
      .updateTable('id_nodes')
      .set({ used_until: BigInt(farther), leased_until: leaseEnd(db) })
      .where('node', '=', node)
      .where('holder', '=', holder)
      .executeTakeFirst(),
  );
  return numUpdatedRows === 1n ? { node, usedUntil, mark: farther, ...now } : undefined;
}

function leaseEnd(db: Database): RawBuilder<bigint> {
  return sql<bigint>`${db.clock} + ${BigInt(leaseLength)}`;
}
