/** Makes the data folder of a released version, for the tests of upgrades. Run by `scripts/make-data-fixture`. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../src/shared/lib/processes.ts';
import { Client, type Record_ } from '../test/support/client.ts';
import { growingPauses } from '../test/support/pauses.ts';
import { createRepository } from '../test/support/repository.ts';
import { startGitHost } from '../test/support/sshd.ts';

const [released = ''] = process.argv.slice(2);
const program = join(released, 'bin/headrace');
const { version } = JSON.parse(readFileSync(join(released, 'package.json'), 'utf8')) as { version: string };
const home = mkdtempSync(join(tmpdir(), 'headrace-fixture-'));
const data = join(home, 'data');
const git = await startGitHost();
const foreign = /^(HEADRACE|NODE_OPTIONS$|INVOCATION_ID$|NOTIFY_SOCKET$)/;
const own = Object.entries(process.env).filter(([name]) => !foreign.test(name));
const env = { ...Object.fromEntries(own), HEADRACE_SSH_CONFIG: git.sshConfig, HEADRACE_BUILD_NETWORK: 'none' };

async function done(command: string, ...args: string[]): Promise<void> {
  const { status, stderr } = await run(command, args, { env });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr.toString()}`);
}

const server = spawn(program, ['serve', '--data-dir', data, '--port', '0'], {
  env,
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => server.kill('SIGKILL'));
let said = '';
server.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
while (!said.includes('listening on')) await Promise.race([once(server.stdout, 'data'), failOn(server)]);

async function failOn(child: typeof server): Promise<never> {
  await once(child, 'exit');
  throw new Error(`the server ended: ${said}`);
}

const api = new Client(/listening on (\S+)/.exec(said)?.[1] ?? '', readFileSync(join(data, 'tls', 'cert.pem'), 'utf8'));
const as = { email: 'admin@localhost', api_key: /API key\s+(\S+)/.exec(said)?.[1] ?? '' };
const post = async (path: string, form: Record<string, string> = {}): Promise<Record_> =>
  (await api.post(path, { as, form })).record;
const list = async (path: string): Promise<Record_[]> => (await api.get(path, { as })).list;

const repository = await createRepository(join(git.folder, 'app.git'));
await repository.commit({ message: 'Begin', files: { greeting: 'hello\n' } });
const project = await post('/projects', { name: 'app', repository_url: git.url('app.git') });
const path = `/projects/${project.id_str}`;
await git.authorize(String(project.ssh_public_key));

const secret = { name: 'TOKEN', content: 'kept since the release before', secret: '1' };
await post(`${path}/environment_variables`, secret);
const unit = await post(`${path}/suites`, {
  name: 'unit',
  command:
    'cat greeting; printf %s "$TOKEN" | sha256sum; seq 1 2000; mkdir -p out cached; date >cached/at; echo made >out/report',
  'artifacts[]': 'out/*',
  'cache[]': 'cached',
});
const variable = { name: 'GREETING', content: 'good morning' };
await post(`${path}/suites/${unit.id_str}/environment_variables`, variable);
await post(`${path}/suites`, { name: 'matrix', command: 'echo "on $SHAPE"', 'matrix[]': 'SHAPE=round,square' });
await post(`${path}/suites`, { name: 'broken', command: 'echo it does not work; exit 3', allow_failure: '1' });
await post(`${path}/suites`, { name: 'by hand', command: 'true', manual: '1' });
await post(`${path}/notifications`, {
  notifiable_type: 'build',
  name: 'webhook',
  'options[url]': 'https://example.org/headrace',
});
await post('/projects', { name: 'empty', repository_url: git.url('empty.git') });

async function build(): Promise<void> {
  const request = await post(`${path}/build_requests`, { commit_ref: 'main' });
  for (const wait = growingPauses(); ; await wait()) {
    const { build_state: state } = (await api.get(`${path}/build_requests/${request.id_str}`, { as })).record;
    if (['passed', 'failed', 'errored'].includes(String(state))) return;
  }
}
await build();
await repository.commit({ message: 'Go on', files: { greeting: 'good evening\n' } });
await build();

// A test compares these after the upgrade.
const builds = [];
for (const commit of await list(`${path}/commits`)) {
  for (const { id_str: id, build_state: state, suite_id_str: suite } of await list(
    `${path}/commits/${commit.id_str}/builds`,
  )) {
    const log = await api.get(`${path}/builds/${id}/log.txt`, { as });
    const artifacts = await list(`${path}/builds/${id}/artifacts`);
    builds.push({ id, suite, state, log: log.text, artifacts: artifacts.map(({ id_str, path: at }) => [id_str, at]) });
  }
}
const noted = {
  version,
  ...as,
  project: { id: project.id_str, suite: unit.id_str, public_key: project.ssh_public_key, secret: secret.content },
  projects: (await list('/projects')).map(({ name }) => name),
  suites: (await list(`${path}/suites`)).map(({ name }) => name),
  builds,
};
await done(program, 'backup', join(home, 'backup'), '--data-dir', data);
const exited = once(server, 'exit');
server.kill('SIGTERM');
await exited;
api.close();
await git.close();

writeFileSync(join(home, 'noted.json'), JSON.stringify(noted, undefined, 2));
const fixtures = join(import.meta.dirname, '../test/fixtures');
mkdirSync(fixtures, { recursive: true });
const file = join(fixtures, `data-${version}.tar.gz`);
const left = ['data/runner', 'data/runner.log', 'data/server.lock', 'data/ballast*', 'data/*.sock'];
await done('tar', '-C', home, ...left.map((one) => `--exclude=${one}`), '-czf', file, 'data', 'backup', 'noted.json');
rmSync(home, { recursive: true, force: true });
console.log(file);
process.exit();
