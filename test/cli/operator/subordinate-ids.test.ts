import assert from 'node:assert/strict';
import { test } from 'node:test';
import { subordinateIds, type IdFiles } from '../../../src/cli/operator/subordinate-ids.ts';

const user = { name: 'runner', id: 998 };
const accounts = { passwd: 'root:x:0:0::/:/bin/sh\nada:x:165000:165000::/:/bin/sh\n', group: 'root:x:0:\n' };
const given = (subuid: string, more: Partial<IdFiles> = {}) =>
  subordinateIds(user, { ...accounts, subuid, subgid: 'runner:200000:65536\n', ...more });

test('the IDs of an ordinary user are those of the first entry that can be used', () => {
  const gids = { first: 200_000, count: 65_536 };
  const one = { uids: { first: 300_000, count: 65_536 }, gids };
  assert.deepEqual(given('runner:300000:65536\n'), one);
  assert.deepEqual(given('998:300000:65536'), one, 'by number');
  assert.deepEqual(
    given('# a word\n\nada:100000:65536\nrunner:300000:70000\n'),
    one,
    'of what is left, no part is used',
  );
  assert.deepEqual(given('runner:0:65536\nrunner:7:7\nrunner:300000:65536'), one, 'the others are passed over');
  assert.deepEqual(given('runner:300000:200000', { subgid: 'runner:400000:131072' }), {
    uids: { first: 300_000, count: 131_072 },
    gids: { first: 400_000, count: 131_072 },
  });
});

test('an entry that is of no use is called by its name', () => {
  const of = (entry: string): string => `/etc/subuid gives runner ${entry} on`;
  const why: Record<string, string> = {
    '': '/etc/subuid gives no IDs to runner',
    'ada:300000:65536': '/etc/subuid gives no IDs to runner',
    'runner:-5:65536': '/etc/subuid gives no IDs to runner',
    'runner:300000': '/etc/subuid gives no IDs to runner',
    'runner:1e9:65536': '/etc/subuid gives no IDs to runner',
    'runner:300000:65536:more': '/etc/subuid gives no IDs to runner',
    'runner:300000:99999999999999999999': '/etc/subuid gives no IDs to runner',
    'runner:300000:1000': `${of('1000 IDs from 300000')}, and builds need 65536`,
    'runner:300000:0': `${of('0 IDs from 300000')}, and builds need 65536`,
    'runner:0:65536': `${of('65536 IDs from 0')}, and 0 of them is root on this machine`,
    'runner:100000:65536': `${of('65536 IDs from 100000')}, and 165000 of them is ada on this machine`,
    'ada:300000:65536\nrunner:365535:65536': `${of('65536 IDs from 365535')}, and some of them to ada as well`,
    'ada:365535:65536\nrunner:300000:65536': `${of('65536 IDs from 300000')}, and some of them to ada as well`,
    'ada:1000:9999999\nrunner:300000:65536': `${of('65536 IDs from 300000')}, and some of them to ada as well`,
    'runner:4294901760:65536': `${of('65536 IDs from 4294901760')}, and there are no such IDs`,
    'runner:9999999999:65536': `${of('65536 IDs from 9999999999')}, and there are no such IDs`,
    'runner:2000000000:65536': `${of('65536 IDs from 2000000000')}, which a runner that is root uses`,
  };
  for (const [text, words] of Object.entries(why)) assert.equal(given(text), words, JSON.stringify(text));
  assert.equal(given('runner:300000:65536', { subgid: '' }), '/etc/subgid gives no IDs to runner');
  const ofStaff = '/etc/subgid gives runner 65536 IDs from 200000 on, and 200001 of them is staff on this machine';
  assert.equal(given('runner:300000:65536', { group: 'staff:x:200001:\n' }), ofStaff);
});
