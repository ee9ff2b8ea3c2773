import assert from 'node:assert/strict';
import { appendFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { readArchive, writeArchive } from '../../../src/cli/operator/backup-archive.ts';
import { temporaryFolder } from '../../support/folders.ts';

async function* lines(): AsyncGenerator<string> {
  yield 'one';
  yield 'two';
}

describe('a backup', () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));

  it('is read to its end, whatever stands behind that', async () => {
    const file = join(folder, 'backup');
    await writeArchive(file, lines());
    appendFileSync(file, Buffer.alloc(1024 * 1024, 'x'));
    const read: string[] = [];
    for await (const line of readArchive(file)) read.push(line);
    assert.deepEqual(read, ['one', 'two']);
  });
});
