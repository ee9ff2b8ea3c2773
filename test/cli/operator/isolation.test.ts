import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../../src/shared/lib/processes.ts';
import type { Credentials } from '../../support/client.ts';
import { confined, unprivilegedRoot } from '../../support/confined.ts';
import { cleanUpAfterwards, folderFor } from '../../support/folders.ts';
import { lacks } from '../../support/machine.ts';
import { longestWait } from '../../support/pauses.ts';
import { headrace, serve, type Serving } from '../../support/program.ts';
import type { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

/** What somebody sees of a server on a machine that cannot isolate builds. */

const limit = { timeout: longestWait };
/** A machine that isolates builds is made one that cannot. */
const [whyNotConfined, inConfinement] = lacks('isolated runner') === false ? [lacks('mounts'), confined] : [false, []];

interface Line {
  msg: string;
  repeated?: number;
}

describe('a server where builds cannot be isolated', () => {
  const afterwards = cleanUpAfterwards();
  const start = async (within: string[], env: Record<string, string> = {}) => {
    const folder = join(folderFor(afterwards), 'data');
    const server = await serve({ afterwards }, folder, env, { runner: true, within });
    afterwards(() => server.api.close());
    const as: Credentials = { email: 'admin@localhost', api_key: /API key\s+(\S+)/.exec(server.output)?.[1] ?? '' };
    const project = (await server.api.post('/projects', { as, form: { name: 'a', repository_url: 'a@b:c' } })).record;
    const requests = `/projects/${project.id_str}/build_requests`;
    const request = (await server.api.post(requests, { as, form: { commit_ref: 'main' } })).record;
    const reason = async (): Promise<string> =>
      String((await server.api.get(`${requests}/${request.id_str}`, { as })).record.waiting_reason);
    return { server, folder, reason, as };
  };
  const lines = (server: Serving): Line[] =>
    server
      .log()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line);
  const about = (server: Serving, words: string): Line[] => lines(server).filter(({ msg }) => msg.includes(words));
  const until = async (isSo: () => boolean | Promise<boolean>): Promise<void> => {
    while (!(await isSo())) await pause(50);
  };
  const stopped = async (server: Serving): Promise<void> => {
    server.process.kill('SIGTERM');
    assert.deepEqual(await server.exited, [0, null]);
  };

  test(
    'says once what is missing and what to type, in its log, to those who wait, and to operators',
    { ...limit, skip: whyNotConfined },
    async () => {
      const { server, folder, reason } = await start(inConfinement);
      const beginning = 'builds cannot be isolated: ';
      await until(() => about(server, beginning).length > 0);
      const [{ msg: sentence } = { msg: '' }] = about(server, beginning);
      for (const word of ['namespaces', '--security-opt', '--device', '--cap-add', 'HEADRACE_SANDBOX=off npm start'])
        assert.ok(sentence.includes(word), `${word} is not in: ${sentence}`);
      assert.doesNotMatch(sentence, /[{}]/, 'no JSON stands in it');
      await until(async () => (await reason()) === sentence);

      const tab = new Tab(server as unknown as Service);
      await tab.signIn({ email: 'admin@localhost', password: /password\s+(\S+)/.exec(server.output)?.[1] ?? '' });
      for (const path of ['/ui/', '/ui/operations', '/ui/account']) {
        const page = await tab.get(path);
        assert.equal(page.text.split('namespaces').length - 1 > 0, true, path);
        assert.match(page.text, />Look again<\/button>/, path);
      }
      const made = await headrace(['admin', 'user', 'create', 'a@example.org', '--data-dir', folder]);
      const other = new Tab(server as unknown as Service);
      await other.signIn(JSON.parse(made.stdout.toString()) as { email: string; password: string });
      assert.doesNotMatch((await other.get('/ui/account')).text, /Look again/);

      const asked = await tab.submit(await tab.get('/ui/account'), '/ui/operations', { do: 'look' });
      assert.equal(asked.headers.location, '/ui/operations?done=looking');
      await until(() => about(server, 'tried again').length === 1);
      for (const time of ['first', 'second']) {
        server.process.kill('SIGHUP');
        await pause(100);
        assert.equal((await server.api.get('/ping')).status, 200, `it lives after the ${time} SIGHUP`);
      }
      assert.equal(about(server, beginning).length, 1, server.log());
      await stopped(server);
    },
  );

  test(
    'looks again at once when it gets a SIGHUP, and then builds',
    { ...limit, skip: lacks('mounts', 'isolated runner') },
    async () => {
      const hide = 'mount -t tmpfs none /dev/net && exec "$@"';
      const { server, reason, as } = await start(['unshare', '--mount', 'sh', '-c', hide, 'sh'], {
        HEADRACE_BUILD_NETWORK: 'internet',
      });
      await until(async () => (await reason()).includes('/dev/net/tun'));
      assert.match(await reason(), /--device \/dev\/net\/tun|chmod 666 \/dev\/net\/tun/);
      assert.match(await reason(), /HEADRACE_BUILD_NETWORK=none npm start/);
      const mended = await run('nsenter', ['--target', String(server.process.pid), '--mount', 'umount', '/dev/net']);
      assert.equal(mended.status, 0, mended.stderr.toString());
      const since = performance.now();
      server.process.kill('SIGHUP');
      await until(async () => (await server.api.get('/runners', { as })).list[0]?.state !== 'failing');
      assert.ok(performance.now() - since < 150_000, 'it did not wait until it would have looked by itself');
      await until(() => about(server, 'the local runner has started').length === 1);
      await until(async () => !(await reason()).includes('isolated'));
      await stopped(server);
    },
  );
});

describe('headrace doctor', () => {
  const afterwards = cleanUpAfterwards();
  interface Report {
    isolated: boolean | null;
    checks: { name: string; state: string; found: string; cost: string; mend: string }[];
  }
  const examine = async (folder: string, within: string[] = [], env: Record<string, string> = {}) => {
    const program = join(import.meta.dirname, '../../../bin/headrace');
    const [first, ...words] = [...within, program, 'doctor', '--json', '--data-dir', folder];
    const plain = Object.entries(process.env).filter(([name]) => !name.startsWith('HEADRACE'));
    const { status, stdout, stderr } = await run(first, words, { env: { ...Object.fromEntries(plain), ...env } });
    assert.notEqual(stdout.toString(), '', stderr.toString());
    return { status, report: JSON.parse(stdout.toString()) as Report };
  };
  const named = ({ checks }: Report, name: string) => checks.find((check) => check.name === name);

  const network = { HEADRACE_BUILD_NETWORK: 'none' };
  const assertAdvised = (...reports: Report[]): void => {
    for (const { name, state, cost, mend } of reports.flatMap(({ checks }) => checks))
      assert.deepEqual([cost !== '', mend !== ''], [state !== 'ok', state !== 'ok'], name);
  };

  const whyNotIsolated = lacks('isolated runner');
  const hidesProc = lacks('mounts', 'isolated runner');
  test('says by its exit status that builds are isolated', { ...limit, skip: whyNotIsolated }, async () => {
    const folder = join(folderFor(afterwards), 'none');
    const good = await examine(folder, [], network);
    assert.deepEqual([good.status, good.report.isolated], [0, true], JSON.stringify(good.report));
    for (const name of ['kernel', 'namespaces', 'git', 'disk', 'database', 'blobs', 'certificate', 'master key'])
      assert.equal(named(good.report, name)?.state, 'ok', name);
    assert.equal((await run('test', ['-e', folder])).status, 1, 'it makes no data folder');
    assertAdvised(good.report);
    if (lacks('root') !== false) return;
    const unprivileged = await examine(folder, unprivilegedRoot, network);
    assert.deepEqual([unprivileged.status, unprivileged.report.isolated], [0, true]);
  });

  test('says by its exit status that they are not, and what to type', { ...limit, skip: whyNotConfined }, async () => {
    const folder = join(folderFor(afterwards), 'none');
    const refused = await examine(folder, inConfinement, network);
    assert.deepEqual([refused.status, refused.report.isolated], [1, false]);
    assert.equal(named(refused.report, 'namespaces')?.state, 'missing');
    assertAdvised(refused.report);
    const off = await examine(folder, [], { ...network, HEADRACE_SANDBOX: 'off' });
    assert.deepEqual([off.status, off.report.isolated], [1, false]);
  });

  test('tells the reason of the kernel for a /proc that cannot be mounted', { ...limit, skip: hidesProc }, async () => {
    const hide = ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs none /proc/sys && exec "$@"', 'sh'];
    const { report } = await examine(join(folderFor(afterwards), 'none'), [...hide, ...unprivilegedRoot], network);
    assert.match(named(report, '/proc')?.found ?? '', /^mount: \/proc: .*(permission denied|not permitted)\.?$/);
  });

  test('takes the port of its own server for free, and that of another program for taken', limit, async () => {
    const folder = join(folderFor(afterwards), 'data');
    const server = await serve({ afterwards }, folder);
    afterwards(() => server.api.close());
    const { port } = new URL(server.address);
    const env = { HEADRACE_BUILD_NETWORK: 'none', HEADRACE_PORT: port };
    const own = await examine(folder, [], env);
    assert.equal(named(own.report, 'port')?.state, 'ok');
    assert.match(named(own.report, 'database')?.found ?? '', /^SQLite/);
    const other = await examine(join(folderFor(afterwards), 'none'), [], env);
    assert.equal(named(other.report, 'port')?.state, 'missing');
    assert.match(named(other.report, 'port')?.mend ?? '', /--port/);
    assert.equal(other.status, own.status, 'the exit status is about isolation alone');
  });

  test('ends with 2 where it cannot find out', limit, async () => {
    const { status, stderr } = await headrace(['doctor'], { HEADRACE_PROT: '1' });
    assert.deepEqual([status, stderr.toString()], [2, 'headrace: HEADRACE_PROT is not a setting\n']);
  });
});
