import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  bytes,
  longest,
  most,
  mostHeld,
  mostKept,
  mostInvitations,
  mostLinksToAddress,
  mostOrganisations,
  mostPasskeys,
  mostRecords,
  mostWaitingJobs,
} from '../src/shared/domain/bounds.ts';

test('docs/limits.md tells every bound', () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/limits.md'), 'utf8');
  const told = Array.from(page.matchAll(/^\|.*\| +([\d,]+) \| `([\w.]+)` +\|$/gm), ([, number = '', name = '']) => [
    name,
    Number(number.replaceAll(',', '')),
  ]);
  const named = (group: string, values: Record<string, number>): [string, number][] =>
    Object.entries(values).map(([name, value]) => [`${group}.${name}`, value]);
  const records = Object.entries(mostRecords).flatMap(([name, bound]): [string, number][] => [
    [`mostRecords.${name}`, bound.most],
    ...('ofAccount' in bound ? [[`mostRecords.${name}.ofAccount`, bound.ofAccount] as [string, number]] : []),
    ...('texts' in bound ? [[`mostRecords.${name}.texts`, bound.texts.bytes] as [string, number]] : []),
  ]);
  const groups = { longest, most, bytes, mostKept, mostHeld };
  const bounds = [...Object.entries(groups).flatMap(([group, values]) => named(group, values)), ...records];
  assert.deepEqual(
    Object.fromEntries(told),
    Object.fromEntries([
      ...bounds,
      ['mostWaitingJobs', mostWaitingJobs],
      ['mostPasskeys', mostPasskeys],
      ['mostInvitations', mostInvitations],
      ['mostLinksToAddress', mostLinksToAddress],
      ['mostOrganisations', mostOrganisations],
    ]),
  );
});
