import { DatabaseSync } from 'node:sqlite';
import { isPostgresUrl } from './open.ts';
import { connectPostgres } from './postgres.ts';

/** Reads the list of tables from the database, so it covers later migrations too. */
export interface Snapshot {
  readonly tables: readonly TableShape[];
  /** Values are in the order of `columns`. */
  rows(table: TableShape): AsyncIterable<unknown[][]>;
  close(): Promise<void>;
}

export interface TableShape {
  name: string;
  columns: string[];
}

const rowsAtATime = 200;

export async function openSnapshot(url: string): Promise<Snapshot> {
  return isPostgresUrl(url) ? postgresSnapshot(url) : sqliteSnapshot(url);
}

/** In WAL mode a separate reader keeps its view while the writer continues. */
async function sqliteSnapshot(file: string): Promise<Snapshot> {
  const db = new DatabaseSync(file, { readOnly: true, readBigInts: true, timeout: 10_000 });
  db.exec('begin');
  const names = db
    .prepare(
      `select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\' order by 1`,
    )
    .all();
  const tables = names.map(({ name }) => {
    const columns = db.prepare('select name from pragma_table_info(?) order by cid').all(String(name));
    return { name: String(name), columns: columns.map((column) => String(column.name)) };
  });
  return {
    tables,
    async *rows(table) {
      const statement = db.prepare(selectAll(table));
      statement.setReturnArrays(true);
      let batch: unknown[][] = [];
      for (const row of statement.iterate()) {
        batch.push(row as unknown as unknown[]);
        if (batch.length === rowsAtATime) {
          yield batch;
          batch = [];
        }
      }
      if (batch.length > 0) yield batch;
    },
    close: async () => db.close(),
  };
}

async function postgresSnapshot(url: string): Promise<Snapshot> {
  const client = await connectPostgres(url);
  await client.query('begin isolation level repeatable read read only');
  const { rows: tables } = await client.query<TableShape>(`
    select tables.table_name::text as name, array_agg(columns.column_name::text order by columns.ordinal_position) as columns
    from information_schema.tables join information_schema.columns using (table_schema, table_name)
    where tables.table_schema = current_schema() and tables.table_type = 'BASE TABLE'
    group by tables.table_name order by tables.table_name collate "C"
  `);
  return {
    tables,
    async *rows(table) {
      await client.query(`declare every_row no scroll cursor for ${selectAll(table)}`);
      for (;;) {
        const { rows } = await client.query<unknown[]>({
          text: `fetch ${rowsAtATime} from every_row`,
          rowMode: 'array',
        });
        if (rows.length === 0) break;
        yield rows;
      }
      await client.query('close every_row');
    },
    close: () => client.end(),
  };
}

function selectAll({ name, columns }: TableShape): string {
  return `select ${columns.map(quote).join(', ')} from ${quote(name)}`;
}

function quote(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
