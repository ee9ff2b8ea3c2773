import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { insertRunner } from '../../../src/server/auth/runners.ts';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { socketPath } from '../../../src/shared/lib/sockets.ts';
import { RefusedError } from '../../../src/runner/failures.ts';
import { openLink } from '../../../src/runner/link.ts';
import { fetchBlob, storeBlob } from '../../../src/runner/transfers.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { describeService } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

describeService('a runner', (service) => {
  let alice: User;
  let folder: string;
  before(async () => {
    alice = await service.user();
    folder = temporaryFolder();
  });
  after(() => rmSync(folder, { recursive: true }));

  const authority = (): string => readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
  const places = {
    'over HTTPS': async () => {
      const { db, ids } = service.store;
      const { token } = await db.transaction((trx) => insertRunner(trx, ids, 'elsewhere'));
      return { url: service.address, token, ca: authority() };
    },
    'over the socket': async () => ({ socket: socketPath(service.folder, 'server.sock') }),
  };
  for (const [way, placeOf] of Object.entries(places)) {
    test(`takes archives and brings results ${way}, larger than any message`, async () => {
      const link = openLink(await placeOf());
      const archive = await archiveOf({ noise: randomBytes(5_000_000).toString('latin1') }, 'tar');
      const dependency = await alice.createDependency();
      await alice.upload(dependency, archive);
      const order = await link.next({ claim: randomName() }, patient);
      assert.ok(order?.work.kind === 'compile_dependency');
      const { digest } = order.work.archive;
      const [fetched, result] = [join(folder, `${way} fetched`), join(folder, `${way} result`)];
      await fetchBlob(link, digest, fetched, patient);
      assert.deepEqual(readFileSync(fetched), archive);
      const pieces: Uint8Array[] = [];
      for await (const piece of (await link.read(digest, 1_000_001, patient)) ?? []) pieces.push(piece);
      assert.deepEqual(Buffer.concat(pieces), archive.subarray(1_000_001));
      assert.equal(await link.read('0'.repeat(64), 0, patient), undefined);

      writeFileSync(result, randomBytes(5_000_000));
      const stored = await storeBlob(link, order.claim, result, patient);
      await using blob = await service.store.blobs.open(stored);
      assert.deepEqual(await blob.read(0, blob.size), readFileSync(result));
      await assert.rejects(storeBlob(link, randomName(), result, patient), /the claim expired/);
      const outcome = { kind: 'compiled', digest: stored } as const;
      await link.finish({ claim: order.claim, outcome, logSize: 0 }, patient);
      assert.equal((await alice.get(`/dependencies/${dependency.id}`)).record.marketplace_state, 'compiled');
      assert.equal(await link.read(digest, 0, patient), undefined, 'what is finished opens nothing any more');
      link.close();
    });
  }

  test('without a token gets nothing and leaves nothing', async () => {
    const link = openLink({ url: service.address, token: 'hrr_guess', ca: authority() });
    await assert.rejects(link.read('0'.repeat(64), 0, patient), RefusedError);
    async function* content(): AsyncGenerator<Buffer> {
      yield Buffer.from('x');
    }
    await assert.rejects(link.store(randomName(), content(), patient), RefusedError);
    link.close();
  });
});
