import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { lacks, type Feature } from './machine.ts';

const project = join(import.meta.dirname, '../..');

/**
 * The needs of a test file, by the modules that it imports, also through others. Such a file is skipped as a whole on a
 * machine that lacks one of them. Single tests name their needs themselves (`skip: lacks(…)`).
 */
const needsByImport: Record<string, (Feature | (string & {}))[]> = {
  'src/runner/sandbox/index.ts': ['isolation'],
  'test/runner/sandbox/seccomp-support.ts': ['seccomp', 'isolation'],
  'test/support/browser.ts': ['chromium-headless-shell'],
  'test/support/busybox.ts': ['busybox'],
  'test/support/clock.ts': ['cc'],
  'test/support/developer.ts': ['python3'],
  'test/support/https-git.ts': ['git', 'openssl'],
  'test/support/installation.ts': ['isolated runner', 'openssl'],
  'test/support/network.ts': ['networks', 'ip'],
  'test/support/ordinary-runner.ts': ['mounts', 'other users'],
  'test/support/program.ts': ['openssl', 'git', 'ssh', 'bwrap', 'bsdtar', 'slirp4netns', 'nft'],
  'test/support/promtool.ts': ['promtool'],
  'test/support/registry.ts': ['skopeo', 'umoci', 'docker-registry', 'htpasswd'],
  'test/support/repository.ts': ['git'],
  'test/support/slurm.ts': ['slurmctld', 'slurmd', 'squeue', 'munged'],
  'test/support/sshd.ts': ['sshd', 'ssh-keygen', 'git'],
  'test/support/swift.ts': ['swift'],
  'test/support/mail-server.ts': ['smtp'],
  'test/support/templates.ts': ['openssl'],
};

const importsOf = new Map<string, readonly string[]>();

/** Types are erased: importing one loads nothing. */
function readImports(file: string): readonly string[] {
  const statements = readFileSync(join(project, file), 'utf8').matchAll(/^(?:import|export) [^;]*?'(\.[^']+\.ts)';/gms);
  const loaded = Array.from(statements).filter(([statement]) => !/^(?:import|export) type /.test(statement));
  return loaded.map(([, path = '']) => join(dirname(file), path)).filter((path) => existsSync(join(project, path)));
}

export function needsOf(file: string): Set<string> {
  const seen = new Set<string>();
  const waiting = [file];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    if (seen.has(next)) continue;
    seen.add(next);
    let imports = importsOf.get(next);
    if (!imports) importsOf.set(next, (imports = readImports(next)));
    waiting.push(...imports);
  }
  return new Set([...seen].flatMap((one) => needsByImport[one] ?? []));
}

/** Why no test of this file can run here; false if they can. The path begins at the project. */
export function lacksForFile(file: string): string | false {
  return lacks(...needsOf(file));
}
