import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { artifactOrigin } from '../../../src/cli/operator/doctor/artifact-origin.ts';
import { ownCertificate } from '../../../src/server/http/certificate.ts';
import { readConfig } from '../../../src/shared/config.ts';
import { temporaryFolder } from '../../support/folders.ts';

test('the doctor knows the host name of artifacts, and whether the certificate is for it', async () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));
  await ownCertificate(folder, ['ci.localhost']);
  const [cert, key] = ['cert.pem', 'key.pem'].map((file) => join(folder, 'tls', file));
  const own = { HEADRACE_TLS_CERT: cert ?? '', HEADRACE_TLS_KEY: key ?? '' };
  const check = (env: Record<string, string>) =>
    artifactOrigin(
      readConfig({ flags: { data_dir: folder }, env: { HEADRACE_BASE_URL: 'https://ci.localhost', ...env } }),
    );
  assert.match((await check({})).found, /without scripts/);
  const wrong = await check({ ...own, HEADRACE_ARTIFACT_URL: 'https://artifacts.localhost' });
  assert.deepEqual([wrong.state, wrong.found], ['warning', 'the certificate is not for artifacts.localhost']);
  const missing = await check({ HEADRACE_ARTIFACT_URL: 'https://artifacts.invalid' });
  assert.equal(missing.state, 'warning');
  assert.match(missing.mend, /let the name artifacts\.invalid lead to this server/);
});
