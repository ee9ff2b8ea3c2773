import type { Said } from './session.ts';
import { noRoom } from './failures.ts';
import { says } from './words.ts';

/*
 * How git is run here: nothing of the machine's or a person's configuration, no prompt, no hook, no program
 * that a repository names, no protocol but ssh. It does not even start ssh, but a relay to one that runs elsewhere.
 */

/**
 * What is fetched is checked object by object: a tree that names something twice or a place outside of it, or a
 * `.gitmodules` made to mislead, is refused. These are left alone, because histories that were made by old or foreign
 * tools have them, and they mislead nobody.
 */
const harmless = [
  'badDate',
  'badDateOverflow',
  'badEmail',
  'badFilemode',
  'badName',
  'badTagName',
  'badTimezone',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'missingTaggerEntry',
  'multipleAuthors',
  'nulInCommit',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
];

const settings: Record<string, string> = {
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
  'fetch.fsckObjects': 'true',
  'transfer.fsckObjects': 'true',
  'push.recurseSubmodules': 'no',
  'submodule.recurse': 'false',
  'checkout.workers': '0', // as many as there are cores
  // Large repositories have to fit into the memory that a session may have: large files are passed through.
  'core.bigFileThreshold': '32m',
  'pack.threads': '4',
  'pack.windowMemory': '128m',
  ...Object.fromEntries(harmless.map((name) => [`fetch.fsck.${name}`, 'ignore'])),
};

/** The beginning of every command line of git. */
export const git: readonly string[] = [
  'git',
  ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
];

/** The variables that git finds in a session. `relay` is the command that stands for ssh. */
export function gitEnvironment(relay: string): Record<string, string> {
  return {
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
    GIT_SSH_COMMAND: relay,
    GIT_SSH_VARIANT: 'ssh',
  };
}

/** What git says when the machine has no more to give. */
const shortages: Record<'out_of_disk' | 'out_of_memory', readonly string[]> = {
  out_of_disk: noRoom,
  out_of_memory: ['out of memory', 'cannot allocate memory'],
};

/** What a fresh mirror would meet as well. */
const noDamage = [
  ...Object.values(shortages).flat(),
  'permission denied',
  'read-only file system',
  'too many open files',
  'resource temporarily unavailable',
];

/** git failed in a way that is neither the remote's nor the caller's doing: most often a damaged mirror. */
export class GitError extends Error {
  override name = 'GitError';
  said: string;

  constructor(what: string, finished: Said) {
    const said = finished.stderr.subarray(-2000).toString().trim();
    super(`${what}: git ended with ${finished.status}: ${said}`);
    this.said = said;
  }

  get mayBeDamage(): boolean {
    return !says(this.said, noDamage);
  }

  /** What the machine has run out of, by what git says of it. */
  get shortage(): string | null {
    return Object.entries(shortages).find(([, phrases]) => says(this.said, phrases))?.[0] ?? null;
  }
}

export function expectSuccess(what: string, finished: Said): Said {
  if (finished.status !== 0) throw new GitError(what, finished);
  return finished;
}
