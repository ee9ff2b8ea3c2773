import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { run } from '../../src/shared/lib/processes.ts';
import { redisImage, sshImage } from '../support/daemon-images.ts';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { postgresImage } from '../support/postgres-image.ts';
import { postgresPrograms } from '../support/postgres.ts';
import { imageOf, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';
import { servedBuilds, type ServedBuilds } from '../support/served-builds.ts';
import { archiveOf, dependenciesOf } from '../support/software.ts';

const psql = `${join(postgresPrograms(), 'psql')} -X -At -h db -U postgres`;

/** Seconds. Eight databases at once take a while to begin on a busy machine. */
const patient = '300';

/** Real daemons as services, in the network that builds have by default. */
onOneDatabase((database) => {
  let registry: TestRegistry;
  let installation: Installation;
  let project: Project;
  let served: ServedBuilds;
  before(async () => {
    registry = await startRegistry({ isOpen: true });
    const settings = {
      HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
      HEADRACE_BUILD_NETWORK: 'internet',
      HEADRACE_CONCURRENCY: '8',
    };
    installation = await startInstallation(database, settings);
    project = await installation.project();
    served = servedBuilds(installation, project);
    await registry.push('team/postgres', '1', await postgresImage());
  });
  after(() => registry?.close());

  test('a PostgreSQL is made and filled once, by its image’s root and its own user, and begins with that', async (t) => {
    const db = {
      name: 'db',
      image: `${registry.host}/team/postgres:1`,
      ready_command: 'pg_isready -h 127.0.0.1',
      ready_timeout: patient,
      prepare: `echo filling; ${psql} -f schema.sql`,
      'prepare_inputs[]': 'schema.sql',
      'data[]': '/srv/data',
    };
    const command = `${psql} -c 'select colour from colours'; ${psql} -c 'drop table colours'`;
    const id = await served.suite(t, 'database', command, [db]);
    const schema = async (colour: string): Promise<unknown> => {
      const files = { 'schema.sql': `create table colours as select '${colour}' as colour;\n` };
      return project.repository.commit({ message: colour, files });
    };
    for (const [colour, isFilled] of [
      ['ultramarine', true],
      ['ultramarine', false],
      ['crimson', true],
    ] as const) {
      if (isFilled) await schema(colour);
      const [result] = await served.built(id);
      const said = (await result?.said('db')) ?? '';
      assert.equal(result?.build.build_state, 'passed', `${result?.log}\n${said}`);
      assert.match(result?.log ?? '', new RegExp(`The service db is ready\\.\\n${colour}\\nDROP TABLE\\n`));
      assert.equal(/creating configuration files(.*\n)*filling\n/.test(said), isFilled, said);
      assert.match(said, /database system was shut down at/);
      assert.doesNotMatch(said, /was interrupted|not properly shut down/);
    }

    // Eight at once begin with the same data, and none sees what another does.
    const own = `${psql} -c "create table of_$WHO (); alter table colours rename to of_0; select pg_sleep(1)" >/dev/null`;
    const seen = `${psql} -c "select string_agg(relname, ' ' order by relname) from pg_class where relname like 'of~_%' escape '~'"`;
    const many = await served.suite(t, 'at once', `${own}; ${seen}`, [db], { 'matrix[]': 'WHO=a,b,c,d,e,f,g,h' });
    const [one] = await served.built(many);
    const builds = await project.builds({ id_str: String(one?.build['commit_id_str']) });
    const mine = builds.filter(({ suite_id_str }) => suite_id_str === many);
    const logs = await Promise.all(mine.map(async (build) => `${build.build_state}: ${await project.log(build)}`));
    assert.deepEqual(
      logs.map((log) => /^passed: .*The service db is ready\.\n(.*)\n$/s.exec(log)?.[1] ?? log).toSorted(),
      Array.from('abcdefgh', (who) => `of_0 of_${who}`),
    );
  });

  test('a PostgreSQL and a Redis are ready before the first step, found by their names, each with its log', async (t) => {
    await registry.push('team/redis', '1', await redisImage());
    const command = `${psql} -c 'select 40 + 2'; redis-cli -h cache set colour ultramarine; redis-cli -h cache get colour`;
    const id = await served.suite(t, 'both', command, [
      { name: 'db', image: `${registry.host}/team/postgres:1`, ready_timeout: patient },
      { name: 'cache', image: `${registry.host}/team/redis:1`, ready_timeout: patient },
    ]);
    for (const _ of [1, 2]) {
      const [result] = await served.built(id);
      assert.equal(result?.build.build_state, 'passed', result?.log);
      assert.match(result?.log ?? '', /The service cache is ready\.\n/);
      assert.match(result?.log ?? '', /The service db is ready\.\n/);
      assert.match(result?.log ?? '', /\n42\nOK\nultramarine\n$/);
      const [db, cache] = [await result?.said('db'), await result?.said('cache')];
      assert.match(db ?? '', /database system is ready to accept connections/);
      assert.match(cache ?? '', /Ready to accept connections/);
      assert.doesNotMatch(db ?? '', /Redis/);
      assert.deepEqual(
        result?.build.services.map(({ name, state }) => [name, state]),
        [
          ['db', 'stopped'],
          ['cache', 'stopped'],
        ],
      );
    }
  });

  test('an sshd separates its rights, serves its own port, and shuts a user in', async (t) => {
    const folder = temporaryFolder();
    const key = join(folder, 'key');
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key]);
    await registry.push('team/ssh', '1', await sshImage(readFileSync(`${key}.pub`, 'utf8')));
    await project.repository.commit({ message: 'Key', files: { key: readFileSync(key, 'utf8') } });
    const options =
      '-i key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR';
    const command = [
      'chmod 600 key',
      `ssh ${options} worker@host 'id -un; touch ~/made && stat -c %U ~/made; cat /srv/outside'`,
      `sftp -q -b - ${options} jailed@host <<'END'\nls\nget inside\n-get /srv/outside\nEND`,
      'cat inside; test ! -e outside',
    ].join('\n');
    const id = await served.suite(t, 'to ssh', command, [{ name: 'host', image: `${registry.host}/team/ssh:1` }]);
    const [result] = await served.built(id);
    const said = `${result?.log}\n${await result?.said('host')}`;
    assert.equal(result?.build.build_state, 'passed', said);
    assert.match(
      result?.log ?? '',
      /\nworker\nworker\noutside\n(.*\n)*File "\/srv\/outside" not found\.\r?\ninside\n$/,
      said,
    );
    assert.match((await result?.said('host')) ?? '', /port 22\.\r?\n[^]*Accepted publickey for jailed/);
  });

  test('software of the account is a service, at any port, and reaches what its build reaches', async (t) => {
    const dependencies = dependenciesOf(() => installation.api());
    const serve = `#!/usr/bin/perl
use IO::Socket::INET;
my $listening = IO::Socket::INET->new( LocalAddr => "127.0.0.1:$ENV{PORT}", Listen => 5 ) or die "no port: $!\\n";
print STDERR "serving for $ENV{USER} in $ENV{HOME}\\n";
while ( my $who = $listening->accept ) {
    my $private = IO::Socket::INET->new( PeerAddr => '10.1.2.3:80', Timeout => 5 ) ? 'reached' : 'refused';
    print $who "hello, a private network is $private\\n";
    close $who;
}
`;
    const dependency = await dependencies.compile(
      { name: 'hello', command: 'mkdir -p /opt/hello/bin && cp hello-server /opt/hello/bin', prefix: '/opt/hello' },
      await archiveOf({ 'hello-server': serve }),
    );
    assert.equal(dependency.marketplace_state, 'compiled', await dependencies.log(dependency));
    const ask = `perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new("hello:80") or die; print <$s>'`;
    const id = await served.suite(t, 'software', `${ask}; test ! -e /opt/hello`, [
      {
        name: 'hello',
        dependency_id: dependency.id_str,
        command: 'exec hello-server',
        ready_port: '80',
        'variables[0][name]': 'PORT',
        'variables[0][content]': '80',
      },
    ]);
    const [result] = await served.built(id);
    assert.equal(result?.build.build_state, 'passed', `${result?.build.failure_reason} ${result?.log}`);
    assert.equal(result?.log, 'The service hello is ready.\nhello, a private network is refused\n');
    assert.equal(await result?.said('hello'), 'serving for build in /home/build\n');
  });
});

/** Where builds have the machine's own network, a service would be reached by everybody there. */
onOneDatabase((database) => {
  test('where builds have the network of the machine there are none, in words', async (t) => {
    const registry = await startRegistry({ isOpen: true });
    t.after(() => registry.close());
    const settings = { HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8', HEADRACE_BUILD_NETWORK: 'host' };
    const installation = await startInstallation(database, settings);
    const project = await installation.project();
    const served = servedBuilds(installation, project);
    await registry.push('team/idle', '1', imageOf([shellLayer()]));
    const service = { name: 'idle', image: `${registry.host}/team/idle:1`, command: 'exec sleep 1000' };
    const [result] = await served.built(await served.suite(t, 'idle', 'echo ran', [service]));
    assert.deepEqual(
      [result?.build.build_state, result?.build.failure_reason],
      ['errored', 'services_need_own_network'],
      result?.log,
    );
    assert.match(
      result?.log ?? '',
      /This runner gives builds the network of its machine, but services need a network of their own\.\n$/,
    );
    assert.doesNotMatch(result?.log ?? '', /ran/);
  });
});
