import assert from 'node:assert/strict';
import { readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import {
  addMasterKey,
  BrokenSealError,
  createMasterKey,
  dropOldMasterKeys,
  openVault,
} from '../../../src/shared/lib/vault.ts';
import { temporaryFolder } from '../../support/folders.ts';

describe('the vault', () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));
  let files = 0;
  const keyFile = (): string => {
    files += 1;
    const file = join(folder, `key-${files}`);
    createMasterKey(file);
    return file;
  };

  test('opens what it sealed, and never seals alike twice', () => {
    const vault = openVault(keyFile());
    for (const text of ['', 'secret', 'ünï\n\u{1f600}', 'x'.repeat(100_000)]) {
      const sealed = vault.seal(text, 'here');
      assert.equal(vault.open(sealed, 'here'), text);
      assert.notEqual(vault.seal(text, 'here'), sealed);
      if (text !== '') assert.ok(!Buffer.from(sealed, 'base64').includes(text));
    }
  });

  test('refuses a value in which any byte was changed, or that was cut short', () => {
    const vault = openVault(keyFile());
    const bytes = Buffer.from(vault.seal('a secret of more than one block', 'here'), 'base64');
    const open = (changed: Buffer): string => vault.open(changed.toString('base64'), 'here');
    assert.equal(open(bytes), 'a secret of more than one block');
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      assert.throws(() => open(changed), BrokenSealError, `byte ${at}`);
      assert.throws(() => open(bytes.subarray(0, at)), BrokenSealError, `cut at ${at}`);
    }
  });

  test('refuses a value in another place, and under another key', () => {
    const [vault, other] = [openVault(keyFile()), openVault(keyFile())];
    const sealed = vault.seal('secret', 'table.column:1');
    assert.throws(() => vault.open(sealed, 'table.column:2'), BrokenSealError);
    assert.throws(() => vault.open(sealed, 'table.column:11'), BrokenSealError);
    assert.throws(() => other.open(sealed, 'table.column:1'), BrokenSealError);
  });

  test('goes over to a new key while it is open, and forgets the old one', () => {
    const file = keyFile();
    const [vault, beside] = [openVault(file), openVault(file)];
    const old = vault.seal('secret', 'here');
    addMasterKey(file);
    const fresh = openVault(file).seal('newer', 'here');
    assert.equal(beside.open(fresh, 'here'), 'newer');
    assert.equal(beside.open(old, 'here'), 'secret');
    const restarted = openVault(file);
    const prefix = restarted.currentPrefix();
    assert.deepEqual([old.startsWith(prefix), fresh.startsWith(prefix)], [false, true]);
    dropOldMasterKeys(file);
    assert.equal(openVault(file).open(fresh, 'here'), 'newer');
    assert.throws(() => openVault(file).open(old, 'here'), BrokenSealError);
  });

  test('signs for one place, and knows its signatures until their key is dropped', () => {
    const file = keyFile();
    const vault = openVault(file);
    const signature = vault.sign('text', 'here');
    assert.match(signature, /^[\w-]{43}$/);
    assert.ok(vault.isSigned('text', 'here', signature));
    assert.ok(!vault.isSigned('text', 'there', signature) && !vault.isSigned('other', 'here', signature));
    const [first = ''] = signature;
    for (const wrong of ['', signature.slice(1), `${signature}A`, signature.replace(first, first === 'A' ? 'B' : 'A')])
      assert.ok(!vault.isSigned('text', 'here', wrong), wrong);
    addMasterKey(file);
    assert.notEqual(vault.sign('text', 'here'), signature);
    assert.ok(vault.isSigned('text', 'here', signature));
    dropOldMasterKeys(file);
    assert.ok(!vault.isSigned('text', 'here', signature));
    assert.ok(!openVault(keyFile()).isSigned('text', 'here', vault.sign('text', 'here')));
  });

  test('hashes alike until the old keys are gone', () => {
    const [file, other] = [keyFile(), openVault(keyFile())];
    const vault = openVault(file);
    const hash = vault.keyedHash('secret');
    assert.notEqual(hash, other.keyedHash('secret'));
    addMasterKey(file);
    assert.deepEqual([vault.keyedHash('secret'), openVault(file).keyedHash('secret')], [hash, hash]);
    dropOldMasterKeys(file);
    assert.notEqual(openVault(file).keyedHash('secret'), hash);
  });

  test('keeps its key for its owner alone, and does not replace it', () => {
    const file = keyFile();
    const key = readFileSync(file, 'utf8');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    createMasterKey(file);
    assert.equal(readFileSync(file, 'utf8'), key);
    addMasterKey(file);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });
});
