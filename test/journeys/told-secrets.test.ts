import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { zstdDecompressSync } from 'node:zlib';
import { sql } from 'kysely';
import { openDatabase } from '../../src/server/db/open.ts';
import { run } from '../../src/shared/lib/processes.ts';
import { startCollector, type Collector } from '../support/collector.ts';
import { command } from '../support/command.ts';
import { onEveryDatabase, temporaryFolder } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { Receiver } from '../support/receiver.ts';
import { imageOf, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';
import { createRepository } from '../support/repository.ts';

/*
 * One secret of each kind, used as it is meant to be, by a whole installation that logs everything and sends traces. Then
 * everything is searched that people, files and other programs are told.
 */

/** What a text may be in a file that holds bytes as base64, wherever the text begins in them. */
function formsOf(secret: string): string[] {
  const cut = [0, 1, 2].map((at) => {
    const text = Buffer.from(' '.repeat(at) + secret).toString('base64');
    return text.slice(at === 0 ? 0 : 4, -4);
  });
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), ...cut];
}

/** Looks at the command line and the environment of every process that there is, over and over. */
function watchProcesses(secrets: () => Map<string, string>) {
  const seen = new Set<string>();
  let looks = 0;
  const over = new AbortController();
  const read = (pid: string, name: string): string => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'latin1');
    } catch {
      return ''; // it has ended
    }
  };
  const watching = (async () => {
    for (; !over.signal.aborted; looks += 1) {
      for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
        const [words, variables] = [read(pid, 'cmdline'), read(pid, 'environ')];
        const isOfBuild = variables.includes('HEADRACE_BUILD_ID=');
        for (const [what, secret] of secrets()) {
          if (words.includes(secret)) seen.add(`${what} in the words of ${words.replaceAll('\0', ' ').slice(0, 200)}`);
          if (!isOfBuild && variables.includes(secret))
            seen.add(`${what} in the environment of ${words.slice(0, 200)}`);
        }
      }
      await pause(5);
    }
  })();
  return async (): Promise<string[]> => {
    over.abort();
    await watching;
    return looks > 10 ? [...seen] : [`nothing, in ${looks} looks`];
  };
}

onEveryDatabase((database) => {
  let collector: Collector;
  let registry: TestRegistry;
  let forge: Receiver;
  let installation: Installation;
  let project: Project;
  before(async () => {
    collector = await startCollector();
    registry = await startRegistry();
    // A forge, or a receiver, that tells everything again that it was told.
    forge = await Receiver.start((response, { headers, body }) =>
      response.writeHead(422, { 'content-type': 'application/json' }).end(JSON.stringify({ message: headers, body })),
    );
    installation = await startInstallation(database, {
      ...collector.env,
      HEADRACE_LOG_LEVEL: 'trace',
      HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8',
      HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
    });
    project = await installation.project();
    await registry.push('small', '1', imageOf([shellLayer()]));
  });
  after(async () => {
    await collector.close();
    await registry.close();
    await forge[Symbol.asyncDispose]();
  });

  test('no secret is told where it is not needed [promise: sealed-secrets]', async (t) => {
    const { folder, env } = installation;
    const api = installation.api();
    const secrets = new Map<string, string>([
      ['the API key', installation.admin.api_key],
      ['the password of a registry', registry.user.password],
      ['the variable of a suite', 'variable-of-a-suite-60517'],
      ['the variable of a project', 'variable-of-a-project-22841'],
      ['the secret of a step', 'secret-of-a-step-617283945'],
      ['the token of a forge', 'token-of-a-forge-31733'],
      ['the private key of a project', 'OPENSSH PRIVATE KEY'],
      ['the master key', readFileSync(join(folder, 'master.key'), 'utf8').trim()],
    ]);
    const secret = (what: string): string => secrets.get(what) ?? assert.fail(what);
    const endOfWatch = watchProcesses(() => secrets);
    t.after(endOfWatch);

    const made = await command(['admin', 'runner', 'create', 'far', '--data-dir', folder], env);
    secrets.set('the token of a runner', (JSON.parse(made.stdout.toString()) as { token: string }).token);
    await api.post('/registries', { host: registry.host, ...registry.user });
    const hook = await api.post(`${project.path}/hooks`, { provider: 'github' });
    secrets.set('the secret of a hook', String(hook.secret));
    const notification = await api.post(`${project.path}/notifications`, {
      notifiable_type: 'build',
      name: 'webhook',
      'options[url]': forge.url,
    });
    secrets.set('the secret of a webhook', String(notification.secret));
    const target = await api.post(`${project.path}/status_targets`, {
      provider: 'gitea',
      api_url: `http://127.0.0.1:${forge.port}/api/v1`,
      repository: 'team/code',
      token: secret('the token of a forge'),
    });
    await project.variableOfAll(t, 'WIDE', secret('the variable of a project'));
    const say = 'echo "$NARROW $WIDE $STEP $PROOF $HEADRACE_TOKEN"';
    const failing = await project.suite(t, 'failing', '', {
      'steps[0][name]': 'make',
      'steps[0][command]': `echo "STEP=secret-of-a-step-$((617283 * 1000 + 945))" >>"$HEADRACE_SECRET_ENV"; ${say}`,
      'steps[1][name]': 'use',
      'steps[1][command]': `${say}; exit 3`,
      'id_tokens[0][variable]': 'PROOF',
      'id_tokens[0][audience]': 'cloud.example.org',
      api_token: 'write',
    });
    secrets.set('the token that says which build it is', 'eyJhbGciOiJFUzI1NiIsImtpZCI6I');
    await project.variable(failing, 'NARROW', secret('the variable of a suite'));
    await project.suite(t, 'imaged', say, { image: `${registry.host}/small:1` });
    await createRepository(join(installation.host.folder, 'live.git'));
    const strategy = await api.post(`${project.path}/deploy_strategies`, {
      name: 'live',
      strategy_type: 'git',
      'options[repository_url]': installation.host.url('live.git'),
      'options[local_branch]': 'main',
      'options[remote_branch]': 'production',
    });
    await project.repository.commit({ message: 'Tell' });
    const request = await project.build('main');
    assert.equal(request.build_state, 'failed', await project.fetchLog(request));
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    const logs = await Promise.all(builds.map((build) => project.log(build)));
    const states = new Set(builds.map(({ build_state: state }) => state));
    assert.deepEqual(states, new Set(['passed', 'failed']), logs.join('\n'));
    const deploy = await api.post(`${project.path}/deploys`, {
      commit_id: commit?.id_str ?? '',
      deploy_strategy_id: strategy.id_str,
    });
    const isOver = async (): Promise<boolean> => {
      const { deploy_state: state } = await api.get(`${project.path}/deploys/${deploy.id_str}`);
      return !['enqueued', 'running', 'building', 'deploying'].includes(String(state));
    };
    while (!(await isOver())) await pause(50);
    await forge.received(4);

    /** What was told, by where. */
    const told = new Map<string, string | Buffer>();
    const ask = async (path: string, form?: Record<string, string>): Promise<void> =>
      void told.set(`${form ? 'POST' : 'GET'} ${path}`, (await installation.ask(path, form)).text);
    logs.forEach((log, at) => told.set(`a log ${at}`, log));
    told.set('the log of a fetch', await project.fetchLog(request));
    for (const path of ['/metrics', '/healthz', '/audit', '/runners', '/registries', project.path]) await ask(path);
    for (const path of ['', '/deliveries']) {
      await ask(`${project.path}/notifications/${notification.id_str}${path}`);
      await ask(`${project.path}/status_targets/${target.id_str}${path}`);
      await ask(`${project.path}/hooks/${hook.id_str}${path}`);
    }
    for (const path of ['deploys', 'build_requests', 'builds', 'notifications', 'status_targets', 'hooks'])
      await ask(`${project.path}/${path}`);
    // What is refused is not told again.
    const content = secret('the variable of a suite');
    await ask(`${project.path}/environment_variables`, { name: '1 no name', content });
    await ask(`${project.path}/suites/${failing}/environment_variables`, { name: 'NARROW', content, 'refs[]': '[' });
    await ask('/registries', { host: ' ', username: 'x', password: secret('the password of a registry') });
    await ask(`${project.path}/status_targets`, { provider: 'none', token: secret('the token of a forge') });
    await ask(`/projects?oauth_token=${content}`);
    await ask(`/oauth/token`, { grant_type: 'password', client_id: 'x', client_secret: content, code: content });
    const printed = await command(['audit', '--data-dir', folder], env);
    told.set('headrace audit', printed.stdout.toString() + printed.stderr.toString());
    const backup = join(temporaryFolder(), 'backup');
    const saved = await command(['backup', backup, '--without-keys', '--data-dir', folder], env);
    assert.equal(saved.status, 0, saved.stderr.toString());
    told.set('headrace backup', Buffer.concat([saved.stdout, saved.stderr, zstdDecompressSync(readFileSync(backup))]));
    told.set('the log of the server', installation.serving().log());
    for (const { body, headers } of collector.requests)
      told.set(`a trace ${told.size}`, JSON.stringify(headers) + body.toString('latin1'));
    for (const { body, headers } of forge.calls) {
      const { authorization: _, ...others } = headers; // the token, where it belongs
      told.set(`a call ${told.size}`, JSON.stringify(others) + body);
    }
    // Not across file systems: the machine's own files are mounted in the folder of the sandboxes.
    const files = await run('find', [folder, '-xdev', '-type', 'f', '-print0']);
    for (const file of files.stdout.toString().split('\0').slice(0, -1))
      if (file !== join(folder, 'master.key') && existsSync(file)) told.set(`the file ${file}`, readFileSync(file));
    const db = await openDatabase({ url: env['HEADRACE_DATABASE_URL'] ?? join(folder, 'headrace.db') });
    for (const { name } of await db.read.introspection.getTables()) {
      const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(db.read);
      const values = rows.flatMap((row) => Object.values(row));
      const bytes = values.map((value) => (value instanceof Uint8Array ? value : Buffer.from(`${String(value)}\n`)));
      told.set(`the table ${name}`, Buffer.concat(bytes));
    }
    await db.close();

    assert.notEqual(told.get('the log of the server'), '');
    assert.ok([...told.keys()].filter((where) => where.startsWith('a trace')).length > 0);
    assert.deepEqual(await endOfWatch(), []);
    const found = [...secrets].flatMap(([what, hidden]) =>
      [...told].flatMap(([where, text]) =>
        formsOf(hidden).some((form) => text.includes(form)) ? `${what}: ${where}` : [],
      ),
    );
    assert.deepEqual(found, []);
    const credential = /hrb_[\w-]{43}/;
    assert.deepEqual(
      [...told].filter(([, text]) => credential.test(text.toString('latin1' as never))).map(([where]) => where),
      [],
    );
  });
});
