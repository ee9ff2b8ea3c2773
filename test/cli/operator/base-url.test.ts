import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { cleanUpAfterwards, folderFor } from '../../support/folders.ts';
import { command } from '../../support/command.ts';
import { serve, type Serving } from '../../support/program.ts';
import { longestWait } from '../../support/pauses.ts';

const limit = { timeout: longestWait };
const name = 'v1.ci.example.org';

describe('the address of the service', () => {
  const afterwards = cleanUpAfterwards();
  const place = (): string => join(folderFor(afterwards), 'data');
  const stop = async ({ api, process, exited }: Serving): Promise<void> => {
    api.close();
    process.kill('SIGTERM');
    await exited;
  };
  const certificateOf = (folder: string): X509Certificate =>
    new X509Certificate(readFileSync(join(folder, 'tls', 'cert.pem')));
  const serversOf = async ({ api }: Serving): Promise<unknown> => (await api.get('/openapi.json')).body.servers;
  const linkOf = async (folder: string, env: Record<string, string>): Promise<string> => {
    const words = ['admin', 'user', 'password-link', 'admin@localhost', '--data-dir', folder];
    const { stdout, stderr } = await command(words, env);
    assert.notEqual(stdout.length, 0, stderr.toString());
    return (JSON.parse(stdout.toString()) as { url: string }).url;
  };

  test('is the one that the operator gives it, everywhere', limit, async () => {
    const folder = place();
    const env = { HEADRACE_BASE_URL: `https://${name}/` };
    const server = await serve({ afterwards }, folder, env);
    assert.match(server.output, new RegExp(`^ *address +https://${name}/$`, 'm'));
    assert.match(server.output, /^listening on https:\/\/127\.0\.0\.1:\d+$/m);
    assert.deepEqual(await serversOf(server), [{ url: `https://${name}` }]);
    assert.ok(certificateOf(folder).checkHost(name));
    assert.ok(certificateOf(folder).checkHost('localhost') && certificateOf(folder).checkIP('127.0.0.1'));
    assert.ok((await linkOf(folder, env)).startsWith(`https://${name}/ui/password?token=`));
    await stop(server);
  });

  test('that is given later is added to the certificate, which then stays as it is', limit, async () => {
    const folder = place();
    const first = await serve({ afterwards }, folder);
    assert.deepEqual(await serversOf(first), [{ url: '/' }]);
    await stop(first);
    const { fingerprint256: before } = certificateOf(folder);
    await stop(await serve({ afterwards }, folder));
    assert.equal(certificateOf(folder).fingerprint256, before);
    const env = { HEADRACE_BASE_URL: `https://${name}:8443` };
    await stop(await serve({ afterwards }, folder, env));
    const renewed = certificateOf(folder);
    assert.ok(renewed.checkHost(name));
    await stop(await serve({ afterwards }, folder, env));
    await stop(await serve({ afterwards }, folder));
    assert.equal(certificateOf(folder).fingerprint256, renewed.fingerprint256);
    await stop(await serve({ afterwards }, folder, { HEADRACE_BASE_URL: 'https://[2001:db8::7]:9000' }));
    assert.ok(certificateOf(folder).checkIP('2001:db8::7'));
  });

  test('is where the server listens, for a link that another command makes', limit, async () => {
    const folder = place();
    const server = await serve({ afterwards }, folder);
    assert.match(server.output, new RegExp(`^ *address +${server.address}/$`, 'm'));
    assert.ok((await linkOf(folder, {})).startsWith(`${server.address}/ui/password?token=`));
    await stop(server);
    // Nobody listens any more: it is where a server would.
    assert.ok((await linkOf(folder, {})).startsWith('https://127.0.0.1:8443/ui/password?token='));
    assert.ok((await linkOf(folder, { HEADRACE_PORT: '9001' })).startsWith('https://127.0.0.1:9001/ui/'));
    // Nor after one that was killed.
    const killed = await serve({ afterwards }, folder);
    killed.api.close();
    killed.process.kill('SIGKILL');
    await killed.exited;
    assert.ok((await linkOf(folder, {})).startsWith('https://127.0.0.1:8443/ui/password?token='));
    const wide = await serve({ afterwards }, folder, { HEADRACE_HOST: '0.0.0.0' });
    assert.doesNotMatch(await linkOf(folder, {}), /0\.0\.0\.0/);
    assert.ok((await linkOf(folder, {})).includes(`:${new URL(wide.address).port}/ui/`));
    await stop(wide);
  });
});
