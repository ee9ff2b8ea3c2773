import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { mostRecords, type BoundedTable } from '../../shared/domain/bounds.ts';

export function isBounded(created: string): created is BoundedTable {
  return Object.hasOwn(mostRecords, created);
}

export interface Parents {
  account?: bigint;
  organisation?: bigint;
  project?: bigint;
  suite?: bigint;
}

/**
 * Refuses a record above the limit, or texts that are too long together with the texts of neighbours. It runs after the
 * write in the same transaction, so it counts the result of the write. A concurrent caller waits here for the first.
 */
export async function holdRoom(
  database: Pick<Database, 'holdRight'>,
  trx: Transaction,
  table: BoundedTable,
  parents: Parents,
): Promise<void> {
  const bound: (typeof mostRecords)[BoundedTable] = mostRecords[table];
  const [per = 'account'] = [bound.per].flat().filter((one) => parents[one] !== undefined);
  const parent = given(parents[per], per);
  await database.holdRight(trx, 'room', parent);
  const columns = 'texts' in bound ? bound.texts.columns : [];
  const { records, bytes } = await sizes(trx, table, columns, sql`${sql.ref(columnsOfParents[per])} = ${parent}`);
  if (records > bound.most || ('texts' in bound && bytes > bound.texts.bytes)) throw full();
  if (!('ofAccount' in bound)) return;
  const account = given(parents.account, 'account');
  await database.holdRight(trx, 'room', account);
  const owned = sql`project_id in (select id from projects where owner_id = ${account})`;
  if ((await sizes(trx, table, [], owned)).records > bound.ofAccount) throw full();
}

const columnsOfParents = {
  account: 'owner_id',
  organisation: 'organisation_id',
  project: 'project_id',
  suite: 'suite_id',
} as const;

function given(id: bigint | undefined, per: string): bigint {
  if (id === undefined) throw new Error(`nobody says which ${per} it belongs to`);
  return id;
}

async function sizes(
  trx: Queries,
  table: BoundedTable,
  columns: readonly string[],
  where: ReturnType<typeof sql>,
): Promise<{ records: number; bytes: number }> {
  // Both databases find a text's length in bytes without reading the text.
  const lengths = columns.map((column) => sql`octet_length(${sql.ref(column)})`);
  const { rows } = await sql<{ records: bigint; bytes: bigint | null }>`
    select count(*) as records, sum(${lengths.length === 0 ? sql.lit(0) : sql.join(lengths, sql` + `)}) as bytes
    from ${sql.table(table)} where ${where}
  `.execute(trx);
  return { records: Number(rows[0]?.records ?? 0), bytes: Number(rows[0]?.bytes ?? 0) };
}

/** No error code means exactly this. After this one a client does not retry, which would not help. */
function full(): ApiError {
  return new ApiError('is_reserved');
}
