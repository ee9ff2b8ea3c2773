import type { ProxyTrouble } from '../filtering-proxy.ts';
import type { Opener } from './channel.ts';
import { noRoom } from './failures.ts';
import { containsAny } from './phrases.ts';

/*
 * How git runs here: without the configuration of the machine or a user, without prompts, hooks or programs that a
 * repository names, and with no protocol but ssh, or https where the address is one. It does not even start ssh, but a relay
 * to an ssh outside the sandbox.
 */

/**
 * Fetched objects are checked one by one. A tree with a duplicate name or a path outside of it, or a misleading
 * `.gitmodules`, is refused. The findings below are ignored, because old or foreign tools made such histories, and they
 * are harmless.
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
  'gc.auto': '0', // maintenance has its own time, see collect.ts
  'maintenance.auto': 'false',
  'fetch.unpackLimit': '1', // packs only: few files to share with a checkout, and each appears complete or not at all
  'fetch.writeCommitGraph': 'true', // finds the branches that contain a commit without walking the whole history
  'fetch.recurseSubmodules': 'no',
  'fetch.fsckObjects': 'true',
  'transfer.fsckObjects': 'true',
  'push.recurseSubmodules': 'no',
  'submodule.recurse': 'false',
  'checkout.workers': '0', // as many as there are cores
  // Large repositories must fit into a session's memory, so large files are streamed.
  'core.bigFileThreshold': '32m',
  'pack.threads': '4',
  'pack.windowMemory': '128m',
  ...Object.fromEntries(harmless.map((name) => [`fetch.fsck.${name}`, 'ignore'])),
};

/** The beginning of every git command line. */
export const git: readonly string[] = [
  'git',
  ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
];

/** The environment of git in a session. `relay` is the command that replaces ssh. */
export function gitEnvironment(relay: string, protocol: 'ssh' | 'https'): Record<string, string> {
  return {
    HOME: '/nonexistent',
    LC_ALL: 'C.UTF-8', // failures.ts reads the messages of git and ssh
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_ALLOW_PROTOCOL: protocol,
    GIT_SSH_COMMAND: relay,
    GIT_SSH_VARIANT: 'ssh',
  };
}

/**
 * Has git send a credential with requests for one repository only. Without redirects, it reaches no other repository of
 * this host either. No command line and no file has it.
 */
export function credentialEnvironment({ url, username, password }: Opener) {
  const basic = Buffer.from(`${username}:${password}`).toString('base64');
  const plain = url.replace(/(?:\.git)?\/*$/, '');
  const places = [plain, `${plain}.git`];
  const settings = [
    ['http.followRedirects', 'false'],
    ...places.map((place) => [`http.${place}.extraHeader`, `Authorization: Basic ${basic}`]),
  ];
  const variables = settings.flatMap(([key, value], at) => [
    [`GIT_CONFIG_KEY_${at}`, key],
    [`GIT_CONFIG_VALUE_${at}`, value],
  ]);
  return { GIT_CONFIG_COUNT: String(settings.length), ...(Object.fromEntries(variables) as Record<string, string>) };
}

/** git's messages when the machine lacks room or memory. */
const shortages: Record<'out_of_disk' | 'out_of_memory', readonly string[]> = {
  out_of_disk: noRoom,
  out_of_memory: ['out of memory', 'cannot allocate memory'],
};

/** Problems that a new mirror would have as well. */
const noDamage = [
  ...Object.values(shortages).flat(),
  'permission denied',
  'read-only file system',
  'too many open files',
  'resource temporarily unavailable',
];

/** The result of a program in a session. */
export interface GitOutput {
  /** As in a shell: 128 plus the signal's number, where a signal ended it. */
  status: number;
  stdout: Buffer;
  /** The last part of it. */
  stderr: Buffer;
  /** The last output of ssh. */
  ssh: Buffer;
  /** What went wrong with connections to public addresses so far. */
  troubles: readonly ProxyTrouble[];
  /** There was more standard output than wanted, and the program could not write it. */
  truncated: boolean;
}

/** git failed, and neither the remote nor the caller is the cause: most often a damaged mirror. */
export class GitError extends Error {
  override name = 'GitError';
  output: string;

  constructor(what: string, finished: GitOutput) {
    const output = finished.stderr.subarray(-2000).toString().trim();
    super(`${what}: git ended with ${finished.status}: ${output}`);
    this.output = output;
  }

  get mayBeDamage(): boolean {
    return !containsAny(this.output, noDamage);
  }

  /** Which resource the machine lacks, by git's messages. */
  get shortage(): string | null {
    return Object.entries(shortages).find(([, phrases]) => containsAny(this.output, phrases))?.[0] ?? null;
  }
}

export function expectSuccess(what: string, finished: GitOutput): GitOutput {
  if (finished.status !== 0) throw new GitError(what, finished);
  return finished;
}
