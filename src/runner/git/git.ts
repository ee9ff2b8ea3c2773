import { runGroup, type GroupOptions } from '../../lib/process-groups.ts';
import { run, type Finished, type RunOptions } from '../../lib/processes.ts';

/*
 * How git is run here: nothing of the machine's or a person's configuration, no prompt, no hook, no program
 * that a repository names, no protocol but ssh.
 */

const settings = Object.entries({
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.attributesFile': '/dev/null',
  'core.excludesFile': '/dev/null',
  'credential.helper': '',
  'gc.auto': '0', // tidying has its own time, see collect.ts
  'maintenance.auto': 'false',
  'fetch.unpackLimit': '1', // packs alone: few files to share with a checkout, and each appears whole or not at all
  'fetch.writeCommitGraph': 'true', // "which branches contain it" without walking the whole history
  'fetch.recurseSubmodules': 'no',
  'push.recurseSubmodules': 'no',
  'submodule.recurse': 'false',
  'checkout.workers': '0', // as many as there are cores
}).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

function environment(ssh: string | undefined): NodeJS.ProcessEnv {
  return {
    PATH: process.env['PATH'],
    HOME: '/nonexistent',
    LC_ALL: 'C.UTF-8', // failures.ts reads what git and ssh say
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_ALLOW_PROTOCOL: 'ssh',
    GIT_SSH_COMMAND: ssh ?? '/bin/false',
    GIT_SSH_VARIANT: 'ssh',
  };
}

/** A local command that ends by itself in milliseconds. */
export function git(gitDir: string, args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  return run('git', [...settings, `--git-dir=${gitDir}`, ...args], { ...options, env: environment(undefined) });
}

export interface LongGitOptions extends GroupOptions {
  /** The command line of ssh, for what goes over the network. */
  ssh?: string;
  /** Where it runs; the arguments say which repository. */
  cwd: string;
}

/** A command that may take long, talk to a host, or be cancelled: it is ended with all that it started. */
export function longGit(args: readonly string[], options: LongGitOptions): Promise<Finished> {
  const { ssh, ...rest } = options;
  return runGroup('git', [...settings, ...args], { ...rest, env: environment(ssh) });
}

/** git failed in a way that is neither the remote's nor the caller's doing: most often a damaged mirror. */
export class GitError extends Error {
  override name = 'GitError';
  said: string;

  constructor(what: string, finished: Finished) {
    const said = finished.stderr.subarray(-2000).toString().trim();
    super(`${what}: git ended with ${finished.status ?? finished.signal}: ${said}`);
    this.said = said;
  }

  /** A full disk or a lack of rights would meet a fresh mirror as well. */
  get mayBeDamage(): boolean {
    return !/No space left on device|Disk quota exceeded|Permission denied|Read-only file system|Too many open files|Cannot allocate memory/i.test(
      this.said,
    );
  }
}

export function expectSuccess(what: string, finished: Finished): Finished {
  if (finished.status !== 0) throw new GitError(what, finished);
  return finished;
}
