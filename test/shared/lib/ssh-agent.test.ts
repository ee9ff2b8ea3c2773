import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { serveSshAgent } from '../../../src/shared/lib/ssh-agent.ts';
import { parseSshPrivateKey } from '../../../src/shared/lib/ssh-private-key.ts';
import { makeKeyPair } from '../../support/sshd.ts';

async function agentWithKey(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'agent-'));
  const pair = await makeKeyPair('project 7');
  const socket = join(folder, 'agent');
  const agent = await serveSshAgent(socket, parseSshPrivateKey(pair.privateKey));
  t.after(async () => {
    await agent.close();
    await rm(folder, { recursive: true });
  });
  return { folder, pair, socket, sshAdd: (args: string[]) => run('ssh-add', args, { env: { SSH_AUTH_SOCK: socket } }) };
}

test('an agent shows its one key to OpenSSH', async (t) => {
  const { pair, sshAdd } = await agentWithKey(t);
  const listed = await sshAdd(['-L']);
  assert.equal(listed.stdout.toString().trim(), pair.publicKey);
});

test('an agent signs what OpenSSH can verify, and only with its own key', async (t) => {
  const { folder, pair, sshAdd } = await agentWithKey(t);
  await writeFile(join(folder, 'own.pub'), `${pair.publicKey}\n`);
  await writeFile(join(folder, 'other.pub'), `${(await makeKeyPair()).publicKey}\n`);
  const own = await sshAdd(['-T', join(folder, 'own.pub')]);
  assert.equal(own.status, 0, own.stderr.toString());
  assert.notEqual((await sshAdd(['-T', join(folder, 'other.pub')])).status, 0);
});

test('an agent takes no further keys and survives nonsense', async (t) => {
  const { socket, sshAdd } = await agentWithKey(t);
  assert.notEqual((await sshAdd(['-D'])).status, 0);
  for (const nonsense of ['ffffffff00', '00000000', '000000010d', '0000000a0d7fffffff0000000000']) {
    const client = connect(socket);
    await once(client, 'connect');
    client.end(Buffer.from(nonsense, 'hex'));
    client.resume();
    await once(client, 'close');
  }
  assert.equal((await sshAdd(['-L'])).status, 0);
});

test('a key that cannot be used is refused without being quoted', async () => {
  const { privateKey } = await makeKeyPair();
  const lines = privateKey.trim().split('\n');
  const damaged = [lines[0], lines[1], lines.at(-1)].join('\n');
  for (const bad of ['', 'secret words', damaged, privateKey.replace('b3BlbnNza', 'AAAAAAAAA')]) {
    assert.throws(
      () => parseSshPrivateKey(bad),
      (error: Error) =>
        error.name === 'UnreadableKeyError' && !error.message.includes('secret') && error.message.length < 80,
    );
  }
});
