import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import {
  hashPassword,
  hashSecret,
  randomPassword,
  randomSecret,
  secretMatches,
  verifyPassword,
} from '../../../src/shared/lib/passwords.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { generateSshKeyPair } from '../../../src/shared/lib/ssh-keys.ts';
import { temporaryFolder } from '../../support/folders.ts';

describe('an SSH key pair', () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));

  test('is one that OpenSSH reads, whatever its comment', async () => {
    // The length of the comment decides the padding of the private key.
    for (let length = 1; length <= 9; length += 1) {
      const { publicKey, privateKey } = generateSshKeyPair('c'.repeat(length));
      const file = join(folder, `key-${length}`);
      writeFileSync(file, privateKey, { mode: 0o600 });
      const { status, stdout, stderr } = await run('ssh-keygen', ['-y', '-f', file]);
      assert.equal(status, 0, stderr.toString());
      assert.equal(stdout.toString().trim(), publicKey);
    }
  });

  test('is another one each time', () => {
    assert.notEqual(generateSshKeyPair('x').publicKey, generateSshKeyPair('x').publicKey);
  });
});

describe('a password', () => {
  test('is hashed with argon2id and known again', async () => {
    const password = randomPassword();
    const stored = await hashPassword(password);
    assert.match(stored, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    assert.equal(await verifyPassword(password, stored), true);
    assert.equal(await verifyPassword(`${password} `, stored), false);
    assert.notEqual(await hashPassword(password), stored);
    assert.equal(await verifyPassword(password, 'nonsense'), false);
  });
});

describe('an API key', () => {
  test('matches its own hash alone', () => {
    const [one, other] = [randomSecret('hrk'), randomSecret('hrk')];
    assert.match(one, /^hrk_[A-Za-z0-9_-]{43}$/);
    assert.equal(secretMatches(one, hashSecret(one)), true);
    assert.equal(secretMatches(other, hashSecret(one)), false);
    assert.equal(secretMatches(one, ''), false);
  });
});
