import type { SuiteRow } from '../db/schema.ts';
import { suiteFields } from '../../shared/records/suite.ts';

/** The stored suites of a file may be older than the field. */
export function idTokensIn({ id_tokens: tokens = '[]' }: Partial<Pick<SuiteRow, 'id_tokens'>>) {
  return suiteFields.id_tokens.fromColumn(tokens);
}
