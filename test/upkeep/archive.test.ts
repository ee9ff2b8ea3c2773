import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { readArchive, writeArchive } from '../../src/cli/operator/backup-archive.ts';
import { parseExactJson } from '../../src/shared/lib/exact-json.ts';
import { temporaryFolder } from './support.ts';

async function* of(...lines: string[]): AsyncGenerator<string> {
  yield* lines;
}

async function* failing(): AsyncGenerator<string> {
  yield 'x'.repeat(1_000_000);
  throw new Error('the source broke');
}

it('an archive gives back its lines, long and short', async (t) => {
  const file = join(temporaryFolder(t), 'archive');
  const lines = ['', 'x'.repeat(300_000), '{"end":{"lines":0,"sha256":""}}', 'ünï', ''];
  await writeArchive(file, of(...lines));
  assert.deepEqual(await Array.fromAsync(readArchive(file)), lines);
});

it('an archive that could not be finished leaves nothing behind', async (t) => {
  const folder = temporaryFolder(t);
  await assert.rejects(writeArchive(join(folder, 'archive'), failing()), /the source broke/);
  assert.deepEqual(readdirSync(folder), []);
});

it('whole numbers are read with all their digits', () => {
  assert.deepEqual(parseExactJson('[9223372036854775807,-1,0,1.5,"1",null]'), [
    9_223_372_036_854_775_807n,
    -1n,
    0n,
    1.5,
    '1',
    null,
  ]);
});
