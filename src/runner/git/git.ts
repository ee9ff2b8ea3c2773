import type { ProxyTrouble } from '../filtering-proxy.ts';
import type { Opener } from './channel.ts';
import { shortages } from './failures.ts';
import { containsAny } from './phrases.ts';

/*
 * git runs without prompts, hooks, programs that a repository names, or the machine's and users' configuration. Its
 * only protocol is ssh, or https for an https address. For ssh, it starts a relay to an ssh outside the sandbox.
 */

/** git refuses paths to the outside, duplicate names and misleading `.gitmodules`. These findings are harmless. */
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
  'gc.auto': '0', // collect.ts runs maintenance at a time of its own
  'maintenance.auto': 'false',
  'fetch.unpackLimit': '1', // packs only: few files to share with a checkout, and each appears complete or not at all
  'fetch.writeCommitGraph': 'true', // finds the branches that contain a commit without walking the whole history
  'fetch.recurseSubmodules': 'no',
  'fetch.fsckObjects': 'true',
  'transfer.fsckObjects': 'true',
  'push.recurseSubmodules': 'no',
  'submodule.recurse': 'false',
  'checkout.workers': '0', // as many as there are cores
  // Streams large files, because repositories must fit into a session's memory.
  'core.bigFileThreshold': '32m',
  'pack.threads': '4',
  'pack.windowMemory': '128m',
  ...Object.fromEntries(harmless.map((name) => [`fetch.fsck.${name}`, 'ignore'])),
};

export const git: readonly string[] = [
  'git',
  ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
];

/** Arguments of git that write the files of a commit. */
export function writeFiles(sha: string): string[] {
  return ['read-tree', '--reset', '-u', '--no-recurse-submodules', sha];
}

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
 * Makes git send a credential for one repository only. Without redirects, it reaches no other repository of this host.
 * It appears on no command line and in no file.
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

/** Problems that a new mirror would have as well. */
const noDamage = [
  ...Object.values(shortages).flat(),
  'permission denied',
  'read-only file system',
  'too many open files',
  'resource temporarily unavailable',
];

export interface GitOutput {
  /** 128 plus the signal's number if a signal ended it. */
  status: number;
  stdout: Buffer;
  /** Only the last part of standard error. */
  stderr: Buffer;
  ssh: Buffer;
  troubles: readonly ProxyTrouble[];
  /** Standard output exceeded the limit, and the program could not write the rest. */
  truncated: boolean;
}

/** A failure that the remote and the caller did not cause. Most often the mirror is damaged. */
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

  get shortage(): string | null {
    return Object.entries(shortages).find(([, phrases]) => containsAny(this.output, phrases))?.[0] ?? null;
  }
}

export function expectSuccess(what: string, finished: GitOutput): GitOutput {
  if (finished.status !== 0) throw new GitError(what, finished);
  return finished;
}

/** A program with truncated output may end with a failing status. */
export function wholeOrCut(what: string, finished: GitOutput): GitOutput {
  return finished.truncated ? finished : expectSuccess(what, finished);
}

/** The text after the last line end is empty or truncated. */
export function linesOf({ stdout }: GitOutput, end = '\n', limit = Infinity): string[] {
  const whole = stdout.subarray(0, stdout.lastIndexOf(end) + 1).toString();
  return whole.split(end, Math.min(limit, 2 ** 32 - 1)).filter(Boolean);
}
