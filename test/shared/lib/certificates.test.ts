import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Failure } from '../../../src/cli/client/failure.ts';
import { Transport } from '../../../src/cli/client/transport.ts';
import { guardedRequest } from '../../../src/shared/lib/guarded-request.ts';
import { fetchDirectly } from '../../../src/runner/direct-fetch.ts';
import { openLink } from '../../../src/runner/link.ts';
import { describeServiceOnOne } from '../../support/service.ts';

const patient = new AbortController().signal;

/** Every call of this program to another one, where Node's environment says that any certificate will do. */
describeServiceOnOne('certificates are verified, also where the environment switches that off', (service) => {
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  test('by what calls forges, webhooks and large files', async (t) => {
    anyCertificateWillDo(t);
    const rules = {
      mayCall: () => true,
      resolve: async () => [{ address: '127.0.0.1', family: 4 }],
      answerWithin: 10_000,
      signal: patient,
    };
    const call = guardedRequest({ url: service.address, headers: {} }, rules, async ({ statusCode }) => statusCode);
    await assert.rejects(call, /self-signed/);
  });

  test('by the runner, of its server and of the blob store', async (t) => {
    anyCertificateWillDo(t);
    const link = openLink({ url: service.address, token: 'hrr_secret' });
    t.after(() => link.close());
    await assert.rejects(link.extend({ claims: [] }, patient), /is not trusted here/);
    await assert.rejects(link.read('0'.repeat(64), 0, patient), /is not trusted here|self-signed/);
    const troubles: string[] = [];
    await fetchDirectly(service.address, 0, patient, (_, why) => troubles.push(why));
    assert.deepEqual(troubles, ['DEPTH_ZERO_SELF_SIGNED_CERT']);
  });

  test('by the command line', async (t) => {
    anyCertificateWillDo(t);
    const transport = new Transport({ url: service.address });
    t.after(() => transport.close());
    await assert.rejects(
      transport.open('/whoami'),
      (error) => error instanceof Failure && /certificate/.test(error.message),
    );
  });

  function anyCertificateWillDo(t: { after: (restore: () => void) => void }): void {
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    t.after(() => {
      if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
      else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before;
    });
  }
});
