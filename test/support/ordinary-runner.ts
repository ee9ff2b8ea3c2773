import { randomInt } from 'node:crypto';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { command } from './command.ts';
import { temporaryFolder } from './databases.ts';
import type { CleanUp } from './folders.ts';
import type { Installation } from './installation.ts';
import { startProgram, type Started } from './program.ts';

/** An ordinary user whom this machine does not have. */
export const ordinaryUser = { name: 'ordinary', id: 60_920 };

/** The first of so many ranges of IDs that nobody on this machine has, and most likely no other test. */
export function freeIds(ranges = 1): number {
  return 1_000_000_000 + randomInt(10_000 - ranges) * 65_536;
}

export const entry = (first: number, count = 65_536): string => `${ordinaryUser.name}:${first}:${count}`;

/** A folder of that user, and what begins a command as that user, who sees other files about IDs in /etc. */
export interface OrdinaryUser {
  folder: string;
  /** `subordinate` are the lines of /etc/subuid and /etc/subgid; `mount` is done before, as root. */
  as: (subordinate: string, mount?: string) => string[];
}

export function ordinary(afterwards: (cleanUp: CleanUp) => void): OrdinaryUser {
  const { name, id } = ordinaryUser;
  const folder = temporaryFolder();
  afterwards(() => removeTree(folder));
  const etc = join(folder, 'etc');
  chmodSync(folder, 0o755);
  mkdirSync(etc, { mode: 0o755 });
  mkdirSync(join(folder, 'data'), { mode: 0o755 });
  chownSync(join(folder, 'data'), id, id);
  writeFileSync(
    join(etc, 'passwd'),
    `${readFileSync('/etc/passwd', 'utf8')}${name}:x:${id}:${id}::/nonexistent:/bin/sh\n`,
  );
  writeFileSync(join(etc, 'group'), `${readFileSync('/etc/group', 'utf8')}${name}:x:${id}:\n`);
  return {
    folder: join(folder, 'data'),
    as(subordinate, mount = 'true') {
      for (const file of ['subuid', 'subgid']) writeFileSync(join(etc, file), `${subordinate}\n`);
      const binds = ['passwd', 'group', 'subuid', 'subgid'].map(
        (file) => `mount --bind ${join(etc, file)} /etc/${file}`,
      );
      const become = `exec setpriv --reuid ${id} --regid ${id} --clear-groups -- "$@"`;
      return ['unshare', '--mount', 'sh', '-c', [...binds, mount, become].join(' && '), 'sh'];
    },
  };
}

export interface OrdinaryRunner {
  folder: string;
  start: (subordinate: string, more?: { mount?: string; within?: string[] }) => Started;
}

/** A runner of that user. Without an installation there is no server for it. */
export async function ordinaryRunner(
  afterwards: (cleanUp: CleanUp) => void,
  tag: string,
  installation?: Installation,
): Promise<OrdinaryRunner> {
  const { folder, as } = ordinary(afterwards);
  const at = (name: string): string => join(folder, name);
  const own = (name: string): void => chownSync(at(name), ordinaryUser.id, ordinaryUser.id);
  writeFileSync(at('token'), 'none', { mode: 0o600 });
  const server = ['--url', installation?.address() ?? 'https://127.0.0.1:1', '--token-file', at('token')];
  if (installation) {
    const made = await command(['admin', 'runner', 'create', tag, '--data-dir', installation.folder], installation.env);
    writeFileSync(at('token'), (JSON.parse(made.stdout.toString()) as { token: string }).token);
    copyFileSync(installation.host.sshConfig, at('ssh_config'));
    copyFileSync(join(installation.folder, 'tls', 'cert.pem'), at('ca.pem'));
    ['ssh_config', 'ca.pem'].forEach(own);
    server.push('--ca-file', at('ca.pem'));
  }
  own('token');
  return {
    folder,
    start: (subordinate, { mount, within = [] } = {}) =>
      startProgram(
        { afterwards },
        ['runner', ...server, '--tag', tag, '--data-dir', folder],
        {
          ...(installation && { HEADRACE_SSH_CONFIG: at('ssh_config') }),
          HEADRACE_BUILD_NETWORK: 'none',
          HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
          HEADRACE_CONCURRENCY: '2',
          HOME: '/nonexistent',
        },
        [...as(subordinate, mount), ...within],
      ),
  };
}
