import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { builderImage } from '../support/builder-image.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { debianLayers } from '../support/debian-image.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { imageOfTars, startRegistry, type TestRegistry } from '../support/registry.ts';

/** Images that builds make, with the real buildah, podman and registry, server, runner and sandbox. */
onOneDatabase((database) => {
  const folder = temporaryFolder();
  let registry: TestRegistry;
  let installation: Installation;
  let project: Project;
  let builder: string;
  before(async () => {
    registry = await startRegistry();
    installation = await startInstallation(database, {
      HEADRACE_IMAGE_BUILDS: 'on',
      HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
      HEADRACE_BUILD_NETWORK: 'host', // the registry is on this machine
    });
    project = await installation.project();
    await installation.api().post('/registries', { host: registry.host, ...registry.user });
    await registry.push('debian', '1', imageOfTars(await debianLayers(folder)));
    await registry.push('builder', '1', await builderImage(registry));
    builder = `${registry.host}/builder:1`;
  });
  after(() => registry?.close());

  const buildsOf = async (ref: string): Promise<(suite: string) => Promise<{ build?: Build; log: string }>> => {
    await project.build(ref);
    const commits = await project.commits();
    const sha = await project.repository.git(['rev-parse', ref]);
    const builds = await project.builds(commits.find((one) => one['ref'] === sha));
    return async (suite) => {
      const build = builds.find(({ suite_id_str }) => suite_id_str === suite);
      return { ...(build && { build }), log: await project.log(build) };
    };
  };
  const commit = (message: string): Promise<string> =>
    project.repository.commit({
      message,
      files: {
        Dockerfile: `FROM ${registry.host}/debian:1\nRUN apt-get -qq update && apt-get -qq install -y greeter >/dev/null 2>&1\nRUN chown app:team /srv && greet >/srv/${message}\n`,
      },
    });

  test('buildah and podman build, push, and what they made runs as an image', async (t) => {
    const made = `${registry.host}/team/made`;
    const look =
      'cat "$REGISTRY_AUTH_FILE"; echo; stat -c %a "$REGISTRY_AUTH_FILE"; grep -c "/dev/shm tmpfs" /proc/mounts';
    const buildah = await project.suite(
      t,
      'buildah',
      `${look}\nbuildah bud -q -t ${made}:1 .\nbuildah push -q ${made}:1`,
      {
        image: builder,
        builds_images: 'true',
      },
    );
    const podman = await project.suite(t, 'podman', `podman build -q -t ${made}:2 .\npodman push -q ${made}:2`, {
      image: builder,
      builds_images: 'true',
    });
    const use =
      'greet; stat -c %U:%G /var/lib/greeter /srv; cat /srv/first; ls -d /sys/kernel || echo no sys; echo "auth:$REGISTRY_AUTH_FILE"';
    const runs = [];
    for (const [name, by] of [
      ['1', buildah],
      ['2', podman],
    ] as const)
      runs.push(await project.suite(t, `run ${name}`, use, { image: `${made}:${name}`, 'needs[]': by }));
    await commit('first');
    const of = await buildsOf('main');
    const one = await of(buildah);
    assert.equal(one.build?.build_state, 'passed', one.log);
    assert.ok(one.log.includes(`{"auths":{"${registry.host}":{"auth":"[masked]"}}}\n600\n1\n`), one.log);
    const two = await of(podman);
    assert.equal(two.build?.build_state, 'passed', two.log);
    for (const suite of runs) {
      const { build, log } = await of(suite);
      assert.equal(build?.build_state, 'passed', log);
      assert.match(log, /\ngreetings\ngreeter:greeter\napp:team\ngreetings\n.*\n?no sys\nauth:\n$/);
      await installation.api().put(`/projects/${project.id_str}/suites/${suite}`, { 'needs[]': '' });
    }
  });

  test('no password reaches a fork, nor a shell in a build that failed [promise: registry-passwords]', async (t) => {
    const command =
      'echo "auth:$REGISTRY_AUTH_FILE"; cat /dev/shm/registry-auth.json; echo; echo FROM scratch >File; buildah bud -q -t made -f File . >/dev/null; buildah images -q >ids; test -s ids; exit 5';
    const suite = await project.suite(t, 'to open', command, { image: builder, builds_images: 'true' });
    const sha = await project.repository.commit({ on: 'proposed', message: 'Propose' });
    await project.repository.git(['update-ref', 'refs/pull/7/head', sha]);
    await project.repository.deleteBranch('proposed');
    const fork = await (await buildsOf('refs/pull/7/head'))(suite);
    assert.match(fork.log, /\nauth:\n\{"auths":\{\}\}\n$/);
    assert.equal(fork.build?.exit_status, 5);
    await commit('second');
    const own = await (await buildsOf('main'))(suite);
    assert.match(own.log, /\nauth:\/dev\/shm\/registry-auth\.json\n\{"auths":\{".*":\{"auth":"\[masked\]"\}\}\}\n$/);
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const look = 'cat "$REGISTRY_AUTH_FILE"; echo; buildah bud -q -t again -f File . >/dev/null && echo built';
    const shell = await developer.run(['shell', own.build?.id_str ?? ''], look);
    assert.equal(shell.out, '{"auths":{}}\nbuilt\n', shell.err);
  });

  test('where the operator changes their mind, such builds say so, and nothing else is saved', async (t) => {
    const suite = await project.suite(t, 'too late', 'true', { image: builder, builds_images: 'true' });
    await installation.stop();
    installation.env['HEADRACE_IMAGE_BUILDS'] = 'off';
    await installation.startServer();
    await commit('third');
    const { build, log } = await (await buildsOf('main'))(suite);
    assert.deepEqual([build?.build_state, build?.failure_reason], ['errored', 'image_builds_off']);
    assert.match(log, /^The operator of this server does not let builds make images \(HEADRACE_IMAGE_BUILDS\)\.\n$/);
  });
});
