import type { Transaction } from '../open.ts';

/** Which part of a build's log its commands wrote. */
export async function commandOutput(trx: Transaction): Promise<void> {
  for (const offset of ['output_from', 'output_to'])
    await trx.schema.alterTable('builds').addColumn(offset, 'bigint').execute();
}
