import assert from 'node:assert/strict';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { run } from '../../src/shared/lib/processes.ts';
import type { Link } from '../../src/shared/protocol/index.ts';
import { StoreAwayError } from '../../src/runner/failures.ts';
import { unlessStoreAwayFor } from '../../src/runner/retry.ts';
import { storeBlob } from '../../src/runner/transfers.ts';
import { temporaryFolder } from '../support/folders.ts';
import { longestWait } from '../support/pauses.ts';

describe('a result of a sandbox', () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));
  const sent: string[] = [];
  const link: Pick<Link, 'store'> = {
    async store(_claim, content) {
      let text = '';
      for await (const piece of content) text += Buffer.from(piece).toString();
      sent.push(text);
      return { gone: true };
    },
  };
  const store = (name: string): Promise<string> =>
    storeBlob(link, 'claim', join(folder, name), AbortSignal.timeout(longestWait));

  test('is sent if it is a file', async () => {
    writeFileSync(join(folder, 'file'), 'made');
    await assert.rejects(store('file'), /the claim expired/);
    assert.deepEqual(sent.splice(0), ['made']);
  });

  test('waits for a store that is away as long as it is worth it, and then says so', async () => {
    const path = join(folder, 'patient');
    writeFileSync(path, 'content');
    const heard: string[] = [];
    const away: typeof link = {
      async store(_claim, content) {
        for await (const piece of content) heard.push(Buffer.from(piece).toString());
        throw new StoreAwayError('away');
      },
    };
    const patience = unlessStoreAwayFor(1000); // longer than the first try takes anywhere, or there is no second
    await assert.rejects(storeBlob(away, 'claim', path, AbortSignal.timeout(longestWait), patience), StoreAwayError);
    assert.ok(heard.length > 1 && heard.every((text) => text === 'content'), String(heard));
  });

  test('is not sent if it is anything else [promise: dependency-links]', async () => {
    writeFileSync(join(folder, 'secret'), 'of this machine');
    symlinkSync(join(folder, 'secret'), join(folder, 'link'));
    mkdirSync(join(folder, 'directory'));
    await run('mkfifo', [join(folder, 'pipe')]);
    await assert.rejects(store('link'), /ELOOP/);
    await assert.rejects(store('directory'), /not a file/);
    await assert.rejects(store('pipe'), /not a file/);
    assert.deepEqual(sent, []);
  });
});
