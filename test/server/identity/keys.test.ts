import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openSigningKeys, type SigningKeys } from '../../../src/server/identity/keys.ts';
import { createMasterKey, openVault } from '../../../src/shared/lib/vault.ts';
import { onEveryDatabase, temporaryFolder } from '../../support/databases.ts';

const hour = 3_600_000;
const day = 24 * hour;

onEveryDatabase((database) => {
  const begin = async (t: { after(end: () => Promise<void>): void }) => {
    const file = `${temporaryFolder()}/master.key`;
    createMasterKey(file);
    const db = await database.open();
    const clock = { at: 1_000 * day };
    const open = async (): Promise<SigningKeys> => {
      const keys = await openSigningKeys({ db, vault: openVault(file), now: () => clock.at, onError: assert.ifError });
      t.after(() => keys.close());
      return keys;
    };
    const signs = (keys: SigningKeys): Promise<string> => db.transaction(async (trx) => (await keys.current(trx)).kid);
    const published = async (keys: SigningKeys) => (await keys.published()).map(({ kid }) => kid);
    return { db, clock, open, signs, published };
  };

  test('servers that start together on an empty database have one key, sealed', async (t) => {
    const { db, open, signs, published } = await begin(t);
    const [one, two] = await Promise.all([open(), open()]);
    const kid = await signs(one);
    assert.equal(await signs(two), kid);
    assert.deepEqual([await published(one), await published(two)], [[kid], [kid]]);
    const [row, ...others] = await db.read.selectFrom('signing_keys').selectAll().execute();
    assert.deepEqual(others, []);
    assert.doesNotMatch(row?.private_key ?? '', /"d"/);
    assert.doesNotMatch(row?.public_key ?? '"d"', /"d"/);
    for (const key of await one.published())
      assert.deepEqual(Object.keys(key).toSorted(), 'alg crv kid kty use x y'.split(' '));
  });

  test('a key is replaced after 90 days, is announced before, and stays until its last token has ended', async (t) => {
    const { clock, open, signs, published } = await begin(t);
    const [one, two] = [await open(), await open()];
    const first = await signs(one);
    const began = clock.at;
    clock.at = began + 89 * day - 1;
    await one.renew();
    assert.deepEqual(await published(one), [first]);
    clock.at = began + 89 * day;
    await Promise.all([one.renew(), two.renew()]);
    const [, second = ''] = await published(two);
    assert.deepEqual(await published(one), [first, second]);
    assert.equal(await signs(two), first);
    clock.at = began + 90 * day;
    assert.equal(await signs(one), second);
    clock.at = began + 90 * day + hour;
    await one.renew();
    assert.deepEqual(await published(two), [first, second]);
    clock.at = began + 90 * day + 2 * hour;
    assert.deepEqual(await published(two), [second]);
    await two.renew();
    assert.deepEqual(await published(one), [second]);
    // A server that was off for a year begins with a new key.
    clock.at = began + 500 * day;
    const late = await open();
    assert.notEqual(await signs(late), second);
    assert.deepEqual(await published(late), [second, await signs(late)]);
  });
});
