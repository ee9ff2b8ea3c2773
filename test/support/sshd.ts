import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { run } from '../../src/shared/lib/processes.ts';
import { longestWait } from './pauses.ts';
import { freePort } from './ports.ts';

/** A git host: a real sshd on a loopback port that serves the repositories in one folder to authorized keys. */
export interface GitHost {
  /** The folder of its repositories. */
  folder: string;
  /** The OpenSSH client configuration for it, for HEADRACE_SSH_CONFIG. */
  sshConfig: string;
  /** Its name in the client configuration. */
  name: string;
  port: number;
  /** A project's address for one of its repositories: `url('app.git')`. */
  url(repository: string): string;
  /** Installs a public key, as a person does in the settings of a repository. */
  authorize(publicKey: string): Promise<void>;
  /** Removes the key as hosts do: open connections stay open. */
  withdraw(publicKey: string): Promise<void>;
  /** Removes the key and cuts open connections. */
  revoke(publicKey: string): Promise<void>;
  /** How often a client has authenticated. */
  logins(): number;
  /** Uses a new host key from now on. */
  changeHostKey(): Promise<void>;
  cutConnections(): Promise<void>;
  /** Accepts connections and sends nothing, like a host that hangs, until it thaws. */
  freeze(): void;
  thaw(): void;
  /** Lets clients in and then sends nothing. The promise settles when a client has come that far. */
  fallSilent(): Promise<() => Promise<void>>;
  /** Lets clients in, sends this and closes the connection. */
  failWith(words: string): Promise<void>;
  recover(): Promise<void>;
  /** Allows one more command, such as those of Git LFS. The program gets the whole command in SSH_ORIGINAL_COMMAND. */
  provide(command: string, program: string): Promise<void>;
  close(): Promise<void>;
}

const program = '/usr/sbin/sshd';

export async function startGitHost({ name = 'git.test' } = {}): Promise<GitHost> {
  const home = await mkdtemp(join(tmpdir(), 'git-host-'));
  const folder = join(home, 'repositories');
  const keys = join(home, 'authorized_keys');
  const hostKey = join(home, 'host_key');
  const sshConfig = join(home, 'ssh_config');
  const authorized = new Set<string>();
  const writeKeys = (): Promise<void> => writeFile(keys, Array.from(authorized, (key) => `${key}\n`).join(''));

  // Only root's sshd separates privileges, and only root can make the folder for that.
  if (process.getuid?.() === 0) await mkdir('/run/sshd', { recursive: true, mode: 0o755 });
  await mkdir(folder);
  await writeKeys();
  await makeHostKey(hostKey);
  const serve = join(home, 'serve');
  const commands = join(home, 'commands');
  const recover = (): Promise<void> => writeFile(serve, serveScript(folder, commands));
  await recover();
  await chmod(serve, 0o755);

  const { sshd, port } = await startOnFreePort(home, { hostKey, keys, serve });
  let log = '';
  sshd.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  await writeFile(sshConfig, `Host ${name}\n  HostName 127.0.0.1\n  Port ${port}\n`);

  const cutConnections = async (): Promise<void> => {
    for (const pid of await descendants(sshd.pid)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // it ended by itself in this moment
      }
    }
  };
  const withdraw = (publicKey: string): Promise<void> => {
    authorized.delete(publicKey.trim());
    return writeKeys();
  };
  return {
    folder,
    sshConfig,
    name,
    port,
    cutConnections,
    url: (repository) => `${userInfo().username}@${name}:${repository}`,
    authorize: (publicKey) => {
      authorized.add(publicKey.trim());
      return writeKeys();
    },
    withdraw,
    revoke: async (publicKey) => {
      await withdraw(publicKey);
      await cutConnections();
    },
    logins: () => log.split('Accepted publickey').length - 1,
    changeHostKey: async () => {
      await makeHostKey(hostKey);
      const { promise: again, resolve } = Promise.withResolvers<void>();
      sshd.stderr?.on('data', (chunk: Buffer) => void (chunk.includes('Server listening') && resolve()));
      sshd.kill('SIGHUP');
      await again;
    },
    freeze: () => void sshd.kill('SIGSTOP'),
    thaw: () => void sshd.kill('SIGCONT'),
    recover,
    provide: async (command, text) => {
      await mkdir(commands, { recursive: true });
      await writeFile(join(commands, command), text, { mode: 0o755 });
    },
    failWith: (words) => writeFile(serve, `#!/bin/sh\necho '${words}' >&2\nexit 3\n`),
    fallSilent: async () => {
      const mark = join(home, 'silent');
      await rm(mark, { force: true });
      // It ends with its input, so that no process stays when the connection is cut.
      await writeFile(serve, `#!/bin/sh\n: > '${mark}'\nexec cat > /dev/null\n`);
      return async () => {
        for (const start = Date.now(); !existsSync(mark); await pause(5)) {
          if (Date.now() - start > longestWait) throw new Error('nobody came');
        }
      };
    },
    close: async () => {
      await cutConnections();
      const ended = once(sshd, 'close');
      sshd.kill('SIGKILL');
      await ended;
      await rm(home, { recursive: true, force: true });
    },
  };
}

async function makeHostKey(path: string): Promise<void> {
  await rm(path, { force: true });
  const made = await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', path]);
  if (made.status !== 0) throw new Error(made.stderr.toString());
}

/** git-shell runs only git's own server commands. */
function serveScript(folder: string, commands: string): string {
  return `#!/bin/sh
cd '${folder}' || exit 1
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
more='${commands}/'"\${SSH_ORIGINAL_COMMAND%% *}"
if [ -f "$more" ]; then exec "$more"; fi
exec git-shell -c "$SSH_ORIGINAL_COMMAND"
`;
}

interface Files {
  hostKey: string;
  keys: string;
  serve: string;
}

/** sshd cannot choose a port itself. If another process took ours meanwhile, another port is tried. */
async function startOnFreePort(home: string, files: Files): Promise<{ sshd: ChildProcess; port: number }> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const port = await freePort();
    const config = join(home, 'sshd_config');
    await writeFile(config, sshdConfig(port, files));
    const sshd = spawn(program, ['-D', '-e', '-f', config], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    sshd.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes('Server listening')) resolve(true);
    });
    sshd.on('error', reject);
    sshd.on('close', () => resolve(false));
    if (await promise) return { sshd, port };
    if (!said.includes('Address already in use')) throw new Error(`sshd does not start: ${said}`);
  }
  throw new Error('no free port for sshd');
}

/**
 * The exchange of keys is the one that takes the least time. SHLVL: a bash that is not the outermost one does not read the
 * start-up files of the user who runs the tests.
 */
function sshdConfig(port: number, { hostKey, keys, serve }: Files): string {
  return `ListenAddress 127.0.0.1
Port ${port}
HostKey ${hostKey}
AuthorizedKeysFile ${keys}
ForceCommand ${serve}
AcceptEnv GIT_PROTOCOL
SetEnv SHLVL=1
AuthenticationMethods publickey
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
UseDNS no
PidFile none
MaxStartups 100
`;
}

async function descendants(pid: number | undefined): Promise<number[]> {
  if (pid === undefined) return [];
  const listed = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const children = listed.split(' ').filter(Boolean).map(Number);
  const deeper = await Promise.all(children.map(descendants));
  return [...children, ...deeper.flat()];
}

/** A key pair as a project has it, made by OpenSSH's own program. */
export async function makeKeyPair(comment = 'test'): Promise<{ publicKey: string; privateKey: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'key-pair-'));
  try {
    const path = join(folder, 'key');
    const made = await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', comment, '-f', path]);
    if (made.status !== 0) throw new Error(made.stderr.toString());
    const [publicKey, privateKey] = await Promise.all([readFile(`${path}.pub`, 'utf8'), readFile(path, 'utf8')]);
    return { publicKey: publicKey.trim(), privateKey };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
