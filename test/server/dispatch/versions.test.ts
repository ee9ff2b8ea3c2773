import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { protocolNumber, version } from '../../../src/shared/protocol/index.ts';
import { RefusedError } from '../../../src/runner/failures.ts';
import { openLink } from '../../../src/runner/link.ts';
import type { Fields } from '../../support/client.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;
const another = `${protocolNumber}0`;

describeServiceOnOne('a runner that speaks another protocol', (service) => {
  let operator: User;
  before(async () => {
    operator = await service.user();
  });
  const linkOf = ({ token }: Registered, as: string): ReturnType<typeof openLink> => {
    const ca = readFileSync(join(service.folder, 'tls', 'cert.pem'), 'utf8');
    return openLink({ url: service.address, token, ca }, { protocol: as });
  };
  const shown = async ({ name }: Registered): Promise<Fields | undefined> =>
    (await operator.get('/runners')).list.find((one) => one.name === name);

  test('ends and says both versions, and operators see it', async () => {
    const far = await registered(service);
    const link = linkOf(far, another);
    const both = (error: Error): boolean =>
      error instanceof RefusedError && error.message.includes(`the server ${version}: they speak different protocols`);
    await assert.rejects(link.next({ claim: randomName() }, patient), both);
    const seen = await shown(far);
    assert.equal(seen?.state, 'failing');
    assert.ok(
      String(seen?.trouble).includes(
        `it is headrace ${version} and this server ${version}: they speak different protocols`,
      ),
    );
    link.close();
    // With the right protocol it is well again.
    const again = linkOf(far, protocolNumber);
    await again.access({ claim: randomName() }, patient);
    assert.deepEqual([(await shown(far))?.state, (await shown(far))?.trouble], ['idle', '']);
    again.close();
  });
});
