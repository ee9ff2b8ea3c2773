import { exactJson, parseExactJson } from '../../shared/lib/exact-json.ts';
import type { Snapshot, TableShape } from './snapshot.ts';

/**
 * Lines of JSON for both kinds of database. An object opens a table, the arrays after it are its rows. Integers keep
 * all 64 bits, and bytes are base64 in an object.
 */
export async function* dumpTables(snapshot: Snapshot, onRows: (count: number) => void): AsyncGenerator<string> {
  for (const table of snapshot.tables) {
    yield JSON.stringify({ table: table.name, columns: table.columns });
    for await (const rows of snapshot.rows(table)) {
      for (const row of rows) yield rowLine(table, row);
      onRows(rows.length);
    }
  }
}

function rowLine(table: TableShape, row: unknown[]): string {
  return exactJson(row.map((value, at) => encode(value, `${table.name}.${table.columns[at]}`)));
}

/** Refuses values that only one database has (dates, booleans, arrays). */
function encode(value: unknown, column: string): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'bigint') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (value instanceof Uint8Array) return { base64: Buffer.from(value).toString('base64') };
  throw new Error(`${column} holds a kind of value that a backup cannot carry between databases`);
}

export type SqlValue = null | string | bigint | number | Uint8Array;

export function readRow(line: string): SqlValue[] {
  return (parseExactJson(line) as unknown[]).map((value) =>
    typeof value === 'object' && value !== null && 'base64' in value
      ? Buffer.from(String(value.base64), 'base64')
      : (value as SqlValue),
  );
}
