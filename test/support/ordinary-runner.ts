import { randomInt } from 'node:crypto';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../src/lib/remove-tree.ts';
import { command } from './command.ts';
import { temporaryFolder, type TestDatabase } from './databases.ts';
import type { Installation } from './installation.ts';
import { startProgram, type Started } from './program.ts';

/** The runner's user. */
export const ordinaryUser = { name: 'ordinary', id: 60_920 };

/** The first of so many ranges of IDs that nobody on this machine has, and most likely no other test. */
export function freeIds(ranges = 1): number {
  return 1_000_000_000 + randomInt(10_000 - ranges) * 65_536;
}

export interface OrdinaryRunner {
  folder: string;
  start(more?: { subordinate?: string; within?: string[] }): Started;
}

interface Options {
  /** Its lines in /etc/subuid and /etc/subgid. */
  subordinate: string;
  tag: string;
}

/**
 * A runner that is an ordinary user of this machine. Its /etc has a user that the machine's own does not have, and other files
 * about IDs: it sees them through mounts of its own.
 */
export async function ordinaryRunner(
  { afterwards }: Pick<TestDatabase, 'afterwards'>,
  installation: Installation,
  { subordinate, tag }: Options,
): Promise<OrdinaryRunner> {
  const folder = temporaryFolder();
  const at = (...names: string[]): string => join(folder, ...names);
  const { name, id } = ordinaryUser;
  const made = await command(['admin', 'runner', 'create', tag, '--data-dir', installation.folder], installation.env);
  const { token } = JSON.parse(made.stdout.toString()) as { token: string };
  chmodSync(folder, 0o755);
  for (const path of ['data', 'etc']) mkdirSync(at(path), { mode: 0o755 });
  writeFileSync(
    at('etc/passwd'),
    `${readFileSync('/etc/passwd', 'utf8')}${name}:x:${id}:${id}::/nonexistent:/bin/sh\n`,
  );
  writeFileSync(at('etc/group'), `${readFileSync('/etc/group', 'utf8')}${name}:x:${id}:\n`);
  writeFileSync(at('data/token'), token, { mode: 0o600 });
  copyFileSync(installation.host.sshConfig, at('data/ssh_config'));
  copyFileSync(join(installation.folder, 'tls', 'cert.pem'), at('data/ca.pem'));
  for (const path of ['data', 'data/token', 'data/ssh_config', 'data/ca.pem']) chownSync(at(path), id, id);
  const kills: (() => unknown)[] = [];
  afterwards(async () => {
    for (const kill of kills) await kill();
    await removeTree(folder);
  });
  const binding = ['passwd', 'group', 'subuid', 'subgid'].map((file) => `mount --bind ${at('etc', file)} /etc/${file}`);
  const become = `exec setpriv --reuid ${id} --regid ${id} --clear-groups -- "$@"`;
  return {
    folder,
    start: (more = {}) => {
      for (const file of ['subuid', 'subgid']) writeFileSync(at('etc', file), `${more.subordinate ?? subordinate}\n`);
      const server = [
        '--url',
        installation.address(),
        '--token-file',
        at('data/token'),
        '--ca-file',
        at('data/ca.pem'),
      ];
      return startProgram(
        { afterwards: (kill) => void kills.push(kill) },
        ['runner', ...server, '--tag', tag, '--data-dir', at('data')],
        {
          HEADRACE_SSH_CONFIG: at('data/ssh_config'),
          HEADRACE_BUILD_NETWORK: 'none',
          HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
          HEADRACE_CONCURRENCY: '2',
          HOME: '/nonexistent',
        },
        ['unshare', '--mount', 'sh', '-c', [...binding, become].join(' && '), 'sh', ...(more.within ?? [])],
      );
    },
  };
}
