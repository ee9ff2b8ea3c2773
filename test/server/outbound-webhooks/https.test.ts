import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { ownCertificate } from '../../../src/server/http/certificate.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { serve } from '../../support/program.ts';
import { User } from '../../support/user.ts';

describe('a receiver over HTTPS', () => {
  const cleanUps: (() => void)[] = [];
  after(() => cleanUps.reverse().forEach((cleanUp) => cleanUp()));
  const folder = (): string => {
    const made = temporaryFolder();
    cleanUps.push(() => rmSync(made, { recursive: true, force: true }));
    return made;
  };

  /** What became of the greeting, sent by a server that trusts what `env` lets it trust. */
  async function greetingTo(url: string, env: Record<string, string> = {}) {
    const server = await serve({ afterwards: (cleanUp) => void cleanUps.push(() => void cleanUp()) }, folder(), {
      HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8,::1/128',
      ...env,
    });
    const key = /API key\s+(\S+)/.exec(server.output)?.[1] ?? '';
    const admin = new User(server.api, { email: 'admin@localhost', password: '', api_key: key });
    const project = await admin.createProject();
    const { id } = await admin.createNotification(project, { 'options[url]': url });
    for (;;) {
      const [delivery] = (await admin.get(`/projects/${project.id}/notifications/${id}/deliveries`)).list;
      assert.ok(delivery);
      const [attempt] = delivery.attempts as { status: number | null; answer: string; error: string }[];
      if (attempt) return { state: delivery.state, ...attempt };
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  test('is called when its certificate is one that this machine trusts, and only then', async () => {
    const certificate = await ownCertificate(folder());
    const receiver = createServer(certificate, (_request, response) => response.end('sealed'));
    cleanUps.push(() => receiver.close());
    receiver.listen(0, '127.0.0.1');
    await once(receiver, 'listening');
    const { port } = receiver.address() as AddressInfo;

    const distrusted = await greetingTo(`https://localhost:${port}/`);
    assert.deepEqual([distrusted.state, distrusted.status], ['pending', null]);
    assert.match(distrusted.error, /certificate/);

    const trusted = join(folder(), 'ca.pem');
    writeFileSync(trusted, certificate.cert);
    const { state, status, answer } = await greetingTo(`https://localhost:${port}/`, { HEADRACE_TRUST_FILE: trusted });
    assert.deepEqual([state, status, answer], ['delivered', 200, 'sealed']);
  });
});
