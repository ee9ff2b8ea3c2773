import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startFakeRegistry } from '../support/fake-registry.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { imageOf, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

/** Suites and compiles in images of a real registry, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  let registry: TestRegistry;
  let installation: Installation;
  let project: Project;
  before(async () => {
    registry = await startRegistry();
    installation = await startInstallation(database, { HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8' });
    project = await installation.project();
    await installation.api().post('/registries', { host: registry.host, ...registry.user });
    const env = ['COLOUR=green', 'SHAPE=round', 'HEADRACE_COMMIT=0', 'CI=no', 'PATH=/tools:/bin', 'HOME=/root'];
    const layer = [{ name: 'tools/greet', content: '#!/bin/sh\necho greetings\n' }];
    const config = { WorkingDir: '/tools', User: 'root', Entrypoint: ['/bin/false'], Cmd: ['false'] };
    await registry.push('team/app', '1', imageOf([shellLayer(), layer], { env, config }));
  });
  after(() => registry?.close());

  const buildOf = async (suite: string, message: string): Promise<{ build: Build | undefined; log: string }> => {
    const sha = await project.repository.commit({ message, files: { file: `${message}\n` } });
    await project.build(sha);
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    return { build, log: await project.log(build) };
  };
  const inImage = (t: TestContext, name: string, command: string, image = `${registry.host}/team/app:1`) =>
    project.suite(t, name, command, { image });

  test('a suite runs in its image, with the variables of the image below its own', async (t) => {
    const said = 'greet; cat file; pwd; id -un; echo "$COLOUR $SHAPE $CI $HOME $HEADRACE_SUITE"; ls /usr';
    const suite = await inImage(t, 'in an image', said);
    await project.variable(suite, 'SHAPE', 'square', { secret: 'false' });
    const { build, log } = await buildOf(suite, 'Look around');
    assert.equal(build?.build_state, 'failed', 'the machine’s programs are not there');
    const [first, ...rest] = log.split('\n');
    assert.match(first ?? '', new RegExp(`^Image ${registry.host}/team/app:1 \\(sha256:[0-9a-f]{64}\\)$`));
    assert.deepEqual(rest, [
      'greetings',
      'Look around',
      '/build',
      'root',
      'green square true /home/build in an image',
      'ls: /usr: No such file or directory',
      '',
    ]);
  });

  test('a dependency is compiled in its image, and stands at its prefix in an image', async (t) => {
    const dependencies = dependenciesOf(() => installation.api());
    const command = 'mkdir -p /opt/tool/bin && greet >/opt/tool/said && cat tool >/opt/tool/bin/tool && make';
    const fields = { name: 'tool', prefix: '/opt/tool', image: `${registry.host}/team/app:1` };
    const sources = { tool: '#!/bin/sh\ncat /opt/tool/said\n' };
    const failed = await dependencies.compile({ ...fields, command }, await archiveOf(sources));
    assert.equal(failed.marketplace_state, 'compile_failed');
    assert.match(await dependencies.log(failed), /make: not found/, 'the image has no make');
    const made = await dependencies.compile(
      { ...fields, name: 'tool two', command: command.replace('&& make', '') },
      await archiveOf(sources),
    );
    assert.equal(made.marketplace_state, 'compiled', await dependencies.log(made));
    const suite = await inImage(t, 'with software', 'sh /opt/tool/bin/tool; echo "${PATH}"');
    await project.attach(suite, made);
    const { build, log } = await buildOf(suite, 'Use it');
    assert.equal(build?.build_state, 'passed', log);
    assert.match(log, /\ngreetings\n\/opt\/tool\/bin:\/tools:\/bin\n$/);
  });

  test('a shell in a failed build is in its image, with what the build changed there', async (t) => {
    const suite = await inImage(t, 'to be opened', 'echo made >made; echo changed >/tools/changed; exit 5');
    const { build } = await buildOf(suite, 'Fail');
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const look = 'greet; cat file made /tools/changed; echo "$COLOUR"; ls /usr';
    const shell = await developer.run(['shell', build?.id_str ?? ''], `${look}; exit 4`);
    assert.deepEqual(shell.out.split('\n'), [
      'greetings',
      'Fail',
      'made',
      'changed',
      'green',
      'ls: /usr: No such file or directory',
      '',
    ]);
    assert.equal(shell.status, 4, shell.err);
    const terminal = developer.sit(['shell', build?.id_str ?? '']);
    await terminal.until(/[$#] ?$/m);
    terminal.type('sh -c "echo now; exec sleep 1000"\r');
    await terminal.until(/^now/m);
    terminal.type('\u0003');
    terminal.type('echo status $?; greet; exit 7\r');
    assert.equal(await terminal.end(), 7);
    assert.match(terminal.text, /^status 130\s+greetings$/m);
    assert.doesNotMatch(terminal.text, /job control/);
  });

  test('another account does not get it, and a registry that is away is told in the log', async (t) => {
    const suite = await inImage(t, 'steady', 'greet');
    assert.equal((await buildOf(suite, 'With the registry')).build?.build_state, 'passed');
    const [own] = await installation.api().get<{ id_str: string }[]>('/registries');
    await installation.api().delete(`/registries/${own?.id_str}`);
    const refused = await buildOf(suite, 'Without credentials');
    assert.deepEqual([refused.build?.build_state, refused.build?.failure_reason], ['errored', 'image_access_refused']);
    assert.match(refused.log, /rejects the credentials of this account, or needs credentials and there are none/);
    await installation.api().post('/registries', { host: registry.host, ...registry.user });
    assert.equal((await buildOf(suite, 'With credentials')).build?.build_state, 'passed');
    await registry.stop();
    try {
      const { build, log } = await buildOf(suite, 'Without the registry');
      assert.equal(build?.build_state, 'passed', log);
      assert.match(log, /^The registry 127\.0\.0\.1:\d+: it does not answer\. .* used last: .*\ngreetings\n$/);
    } finally {
      await registry.start();
    }
  });

  test('a registry that is away for a moment costs a try, and no build', async (t) => {
    const fake = await startFakeRegistry();
    t.after(() => fake.close());
    const image = imageOf([shellLayer()]);
    const blobs = new Map([image.config, ...image.layers].map((bytes) => [sha256(bytes), bytes]));
    fake.answer = (_, response) => void response.writeHead(503).end();
    const suite = await inImage(t, 'patient', 'true', `${fake.host}/away:1`);
    const request = await project.ask(await project.repository.commit({ message: 'Wait' }));
    const attempts = async () => {
      const [commit] = await project.commits();
      return (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite).toReversed();
    };
    const told = async () => (await attempts()).map((one) => `${one.build_state} ${one.failure_reason}`.trim());
    while ((await told())[0] !== 'errored registry_unreachable') await pause(50);
    fake.answer = ({ url = '' }, response) => {
      const blob = blobs.get(url.split('/blobs/sha256:')[1] ?? '');
      if (url.includes('/manifests/'))
        response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }).end(image.manifest);
      else response.writeHead(url === '/v2/' || blob ? 200 : 404).end(blob);
    };
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.deepEqual(await told(), ['errored registry_unreachable', 'passed']);
  });

  test('a runner that is killed while it pulls leaves nothing of it', async (t) => {
    const fake = await startFakeRegistry();
    t.after(() => fake.close());
    const image = imageOf([shellLayer()]);
    const hangs = Promise.withResolvers<void>();
    fake.answer = (request, response) => {
      if (request.url === '/v2/') response.writeHead(200).end();
      else if (request.url?.includes('/manifests/'))
        response.writeHead(200, { 'content-type': 'application/vnd.oci.image.manifest.v1+json' }).end(image.manifest);
      else {
        response.writeHead(200, { 'content-length': 1_000_000 }).write('half of it');
        hangs.resolve();
      }
    };
    const suite = await inImage(t, 'interrupted', 'true', `${fake.host}/half:1`);
    const request = await project.ask(await project.repository.commit({ message: 'Interrupt' }));
    await hangs.promise;
    const folder = join(installation.folder, 'runner');
    const making = (): string[] => readdirSync(join(folder, 'images')).filter((name) => name.startsWith('making'));
    assert.equal(making().length, 1);
    assert.equal(readdirSync(join(folder, 'image-sockets')).length, 1);
    fake.answer = (_, response) => void response.writeHead(404).end();
    await installation.killRunner();
    assert.equal((await project.end(request)).build_state, 'errored');
    const [commit] = await project.commits();
    const attempts = (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite);
    assert.deepEqual(
      attempts.map(({ attempt, failure_reason }) => [attempt, failure_reason]),
      [
        [2, 'image_not_found'],
        [1, 'runner_lost'],
      ],
    );
    assert.deepEqual(making(), []);
    while (readdirSync(join(folder, 'image-sockets')).length > 0) await pause(10);
  });
});
