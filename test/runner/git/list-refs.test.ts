import assert from 'node:assert/strict';
import test from 'node:test';
import { most } from '../../../src/shared/domain/bounds.ts';
import { digestOf, readListing } from '../../../src/shared/domain/ref-listings.ts';
import { FetchError } from '../../../src/runner/git/failures.ts';
import type { Listed } from '../../../src/runner/git/list-refs.ts';
import { longestWait } from '../../support/pauses.ts';
import { makeKeyPair } from '../../support/sshd.ts';
import { workplace, type Workplace } from './workplace.ts';

const patient = { digest: null, timeoutMs: longestWait, keepMs: longestWait };

function list({ mirrors, project }: Workplace, more: object = {}): Promise<Listed> {
  return mirrors.listRefs({ ...project, ...patient, ...more });
}

async function refs(place: Workplace, more: object = {}): Promise<Record<string, string>> {
  const { listing = assert.fail('it is the one that is known') } = await list(place, more);
  return Object.fromEntries(readListing(listing) ?? assert.fail(listing));
}

async function failure(place: Workplace, more: object = {}): Promise<FetchError> {
  const thrown: unknown = await list(place, more).catch((error: unknown) => error);
  assert.ok(thrown instanceof FetchError, JSON.stringify(thrown));
  return thrown;
}

/** A host that says what the test says, in place of git. */
const saying = (words: string): string => `#!/bin/sh\n${words}\n`;
const packet = (text: string): string => `${(Buffer.byteLength(text) + 4).toString(16).padStart(4, '0')}${text}`;
const sha = '1234567890'.repeat(4);

test('branches and tags are told with their commits, over one connection, and again only when they differ', async (t) => {
  const place = await workplace(t);
  const { repository, host } = place;
  assert.deepEqual(await list(place), { listing: '' }, 'an empty repository has none');
  const first = await repository.commit();
  await repository.branch('feature/ünï', first);
  await repository.tag('light', first);
  await repository.tag('v1', first, 'with a message');
  await repository.git(['update-ref', 'refs/pull/7/head', first]);
  const names = ['refs/heads/feature/ünï', 'refs/heads/main', 'refs/tags/light', 'refs/tags/v1'];
  const { listing = '' } = await list(place);
  assert.deepEqual(
    [...(readListing(listing) ?? [])],
    names.map((name) => [name, first]),
  );
  assert.deepEqual(await list(place, { digest: digestOf(listing) }), {});
  const second = await repository.commit();
  await repository.deleteBranch('feature/ünï');
  assert.equal((await refs(place, { digest: digestOf(listing) }))['refs/heads/main'], second);
  assert.equal(host.logins(), 1, 'one connection served all of them');
  await host.cutConnections();
  assert.equal(Object.keys(await refs(place)).length, 3, 'one that is lost is made anew');
  assert.equal(host.logins(), 2);
});

test('a key that was taken away lists over the connection of polls, which no fetch uses [promise: git-keys]', async (t) => {
  const place = await workplace(t);
  await place.repository.commit();
  await refs(place);
  await place.host.withdraw(place.key.publicKey); // what is open stays open
  await place.fetchFails('key_refused', 'main');
  assert.ok((await refs(place))['refs/heads/main']);
});

test('hosts that speak the older protocol tell the same', async (t) => {
  const place = await workplace(t);
  const { repository, host } = place;
  const old = saying('unset GIT_PROTOCOL\neval exec "$SSH_ORIGINAL_COMMAND"');
  await host.provide('git-upload-pack', old);
  assert.deepEqual(await list(place), { listing: '' });
  const first = await repository.commit();
  await repository.tag('v1', first, 'with a message');
  const older = await list(place);
  await host.provide('git-upload-pack', saying('eval exec "$SSH_ORIGINAL_COMMAND"'));
  assert.deepEqual(await list(place), older);
  assert.equal((await refs(place))['refs/tags/v1'], first);
});

test('seven thousand branches and tags are told', async (t) => {
  const place = await workplace(t);
  const first = await place.repository.commit();
  const lines = Array.from({ length: 7000 }, (_, at) => `create refs/tags/v1.${at} ${first}\n`);
  await place.repository.git(['update-ref', '--stdin'], lines.join(''));
  assert.equal(Object.keys(await refs(place)).length, 7001);
});

test('a failure is explained in words, in time', async (t) => {
  const place = await workplace(t, { connectSeconds: 600 }); // ssh itself would wait for so long
  const { host, repository } = place;
  await repository.commit();
  const gone = await failure(place, { repositoryUrl: host.url('none.git') });
  assert.equal(gone.kind, 'repository_not_found');
  assert.match(gone.message, /does not appear to be a git repository/, 'with what the host said');
  const { privateKey } = await makeKeyPair('a stranger');
  assert.equal((await failure(place, { privateKey })).kind, 'key_refused');
  await host.failWith('Internal trouble, ask Ada');
  const failed = await failure(place);
  assert.match(failed.message, /Internal trouble, ask Ada/);
  await host.recover();
  assert.ok((await refs(place))['refs/heads/main']);
  host.freeze();
  t.after(() => host.thaw());
  const began = performance.now();
  const silent = await failure(place, { timeoutMs: 1500, projectId: '2' });
  assert.equal(silent.kind, 'host_unreachable');
  assert.ok(performance.now() - began < 60_000);
});

test('a host that says too much, nonsense or nothing is heard out within bounds [promise: polls]', async (t) => {
  const place = await workplace(t);
  const { host } = place;
  const hostile = async (words: string, expected: RegExp, more: object = {}): Promise<void> => {
    await host.provide('git-upload-pack', saying(words));
    const error = await failure(place, more);
    assert.match(error.message, expected, words);
    assert.ok(error.message.length < 4000);
  };
  const line = packet(`${sha} refs/heads/main`); // yes adds the line break
  const endless = `${(Number.parseInt(line.slice(0, 4), 16) + 1).toString(16).padStart(4, '0')}${line.slice(4)}`;
  await hostile(`exec yes '${endless}'`, /its list of refs exceeds the limit/);
  await hostile('exec yes nonsense', /protocol error/);
  await hostile('exec yes loud >&2', /loud/);
  await hostile('printf 0003', /protocol error/);
  await hostile('printf fff0; exec sleep 60', /does not respond/, { timeoutMs: 1500 });
  await hostile('exec cat > /dev/null', /does not respond/, { timeoutMs: 1500 });
  await hostile(`printf '${packet('ERR no repository for you')}'`, /no repository for you/);
  const other = `${packet('version 2')}${packet('ls-refs')}${packet('object-format=sha256')}0000`;
  await hostile(`printf '${other}${packet(`${'1'.repeat(64)} refs/heads/x`)}0000'; cat > /dev/null`, /sha256/);
  await hostile(`printf '${packet(`${'0'.repeat(39)}x refs/heads/x`)}0000'`, /protocol error/);
  await hostile(
    `awk 'BEGIN { for (i = 0; i <= ${most.refs}; i++) printf "003f${sha} refs/heads/%07d", i; printf "0000" }'; cat > /dev/null`,
    /more than 50000/,
  );
  const names = [`refs/heads/${'x'.repeat(600)}`, 'refs/heads/a..b', 'refs/heads/-x ', 'refs/other/x', 'refs/heads/ok'];
  const lying = names.map((name) => packet(`${sha} ${name}`)).join('');
  await host.provide(
    'git-upload-pack',
    saying(`printf '${lying}${packet(`${sha} refs/heads/\\377`).replace(/^..../, '0039')}0000'; cat > /dev/null`),
  );
  assert.deepEqual(Object.keys(await refs(place)).toSorted(), ['refs/heads/ok']);
});
