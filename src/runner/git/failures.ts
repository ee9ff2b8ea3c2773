import type { Limits } from '../sandbox/types.ts';
import { containsAny } from './phrases.ts';

export type FetchFailure =
  | RemoteFailure
  | LimitFailure
  | 'not_public'
  | 'invalid_url'
  | 'invalid_ref'
  | 'ref_not_found'
  | 'ambiguous_ref'
  | 'merge_conflict'
  | 'merge_not_possible';

export type RemoteFailure =
  | 'key_refused'
  | 'host_unreachable'
  | 'host_key_changed'
  | 'host_key_unknown'
  | 'repository_not_found'
  | 'malformed_repository'
  | 'commit_withheld'
  | 'connection_lost'
  | 'ssh_misconfigured'
  | 'remote_failed';

export type LimitFailure = 'fetch_timed_out' | 'out_of_memory' | 'disk_full' | 'checkout_too_large';

/** Something outside this program must change. The message explains it to the user, and is in the log already. */
export class FetchError extends Error {
  override name = 'FetchError';
  kind: FetchFailure;

  constructor(kind: FetchFailure, message: string) {
    super(message);
    this.kind = kind;
  }
}

/*
 * Messages of failed ssh and git in the C locale, in lower case. The first match decides: causes before consequences.
 */
const signs: readonly (readonly [RemoteFailure, readonly string[]])[] = [
  ['commit_withheld', ['not our ref', 'does not allow request for unadvertised', "couldn't find remote ref"]],
  ['host_key_changed', ['remote host identification has changed']],
  ['host_key_unknown', ['host key verification failed', 'host key is known for … and you have requested strict']],
  ['ssh_misconfigured', ['bad configuration option', 'terminating, … bad configuration', 'keyword … extra arguments']],
  ['key_refused', ['permission denied (', 'too many authentication failures', 'no supported authentication methods']],
  [
    'repository_not_found',
    [
      'does not appear to be a git repository',
      'repository …not found',
      'could not find repository',
      'project …not found',
      'project …could not be found',
      'no such project',
      'no such repository',
    ],
  ],
  [
    'host_unreachable',
    [
      'connection refused',
      'timed out',
      'no route to host',
      'network is unreachable',
      'could not resolve hostname',
      'host is down',
      'kex_exchange_identification',
      'banner exchange',
      'connection closed by',
      'connection reset by',
      'stdio forwarding failed',
      'connection to … port … failed',
    ],
  ],
  [
    'connection_lost',
    ['broken pipe', 'the remote end hung up', 'early eof', 'unexpected disconnect', 'timeout, server'],
  ],
  [
    'remote_failed',
    ['could not read from remote repository', 'does not allow request', 'protocol error', 'mismatched algorithms'],
  ],
];

const malformed = [
  'fsck error in pack',
  'invalid path ',
  'malformed tree',
  'malformed mode in tree',
  'empty filename in tree entry',
  'too-short tree',
];

/** git's messages about its own damaged copy. It may also blame the remote, which only sees the consequences. */
const damage = [
  'bad object',
  'bad ref',
  'not a git repository: ',
  'did not send all necessary objects',
  'unresolved delta',
  'corrupt',
  'does not point to a valid object',
  'packfile … cannot',
  'packfile … does not',
  'packfile … is far too short',
  ...['tree', 'commit', 'blob', 'object'].flatMap((kind) => [`unable to read ${kind}`, `unable to open ${kind}`]),
  'index file … is too small',
  'missing blob',
  'missing tree',
  'missing commit',
];

/** Keyed by the reason for the end of a sandbox. `file too large` is for a limit on the file size. */
export const shortages: Readonly<Record<'out_of_disk' | 'out_of_memory', readonly string[]>> = {
  out_of_disk: ['no space left on device', 'disk quota exceeded', 'file too large'],
  out_of_memory: ['out of memory', 'cannot allocate memory'],
};

const mostLookedAt = 64 * 1024;

/** Undefined if the messages do not point to the remote. ssh's output is mostly the remote's own. */
export function recognize(git: Buffer | string, ssh: Buffer | string = ''): RemoteFailure | undefined {
  const [gitSaid = '', sshSaid = ''] = [git, ssh].map((output) => output.slice(-mostLookedAt).toString());
  if (containsAny(ownOutput(gitSaid), malformed)) return 'malformed_repository';
  if (blamesItself(gitSaid)) return undefined;
  return signs.find(([, phrases]) => containsAny(`${gitSaid}\n${sshSaid}`, phrases))?.[0];
}

/** Whether git found its own copy damaged, or this machine too small. */
export function blamesItself(git: Buffer | string): boolean {
  return containsAny(ownOutput(git.slice(-mostLookedAt).toString()), [...Object.values(shortages).flat(), ...damage]);
}

/** The remote's output has this prefix: these lines are not git's own findings. */
function ownOutput(git: string): string {
  return git
    .split('\n')
    .filter((line) => !line.startsWith('remote: '))
    .join('\n');
}

/** Undefined if no limit was reached. */
export function limitReached(reason: string | null, limits: Limits): FetchError | undefined {
  const [kind, message] = (reason === null ? undefined : limitsReached[reason]?.(limits)) ?? [];
  return kind === undefined || message === undefined ? undefined : new FetchError(kind, message);
}

const limitsReached: Record<string, (limits: Limits) => [LimitFailure, string]> = {
  timed_out: ({ timeoutMs }) => ['fetch_timed_out', tooSlow(timeoutMs)],
  out_of_memory: ({ memoryBytes }) => [
    'out_of_memory',
    `git needs more than its memory limit of ${Math.floor(memoryBytes / 1024 ** 2)} MB for this repository. ` +
      'Most often a directory in it refers to itself many times over, or a commit changes very many files at once.',
  ],
  out_of_disk: () => [
    'disk_full',
    'The disk of this runner is too small for the repository. The partial fetch is removed. Ask an operator to free space.',
  ],
};

export function tooSlow(timeoutMs: number): string {
  return (
    `git exceeded its time limit of ${Math.round(timeoutMs / 1000)} s (HEADRACE_FETCH_TIMEOUT), and was ended. ` +
    'Try again. If it happens again, check the host, or ask an operator to raise the limit.'
  );
}

export interface Circumstances {
  url: string;
  host: string;
  projectId: string;
  /** The key's, as OpenSSH shows it; empty if no key was needed. */
  fingerprint: string;
}

export function explain(kind: RemoteFailure, circumstances: Circumstances): string {
  return advice[kind](circumstances) + portAdvice(kind, circumstances);
}

const wherePortsGo = 'Where SSH does not listen on port 22, the address is ssh://user@host:port/path.';

/** For a host that does not respond at port 22, or an address that seems to contain a port. */
function portAdvice(kind: RemoteFailure, { url }: Circumstances): string {
  if (url.includes('://')) return '';
  const [, destination, port, path] = /^(.*?):(\d{1,5})\/(.*)$/.exec(url) ?? [];
  const isMeant = port !== undefined && Number(port) > 0 && Number(port) <= 65_535;
  if (isMeant && ['host_unreachable', 'repository_not_found', 'key_refused', 'remote_failed'].includes(kind))
    return `\nIf ${port} in ${url} is meant as a port: git reads it as a folder. Write ssh://${destination}:${port}/${path} instead.`;
  return kind === 'host_unreachable' ? ` ${wherePortsGo}` : '';
}

/** Logs are stored and many users read them, so the key itself is only shown to users who may install it. */
function whichKey({ projectId, fingerprint }: Pick<Circumstances, 'projectId' | 'fingerprint'>): string {
  return `Its public key is the \`ssh_public_key\` of GET /projects/${projectId}; its fingerprint is ${fingerprint}.`;
}

const advice: Record<RemoteFailure, (circumstances: Circumstances) => string> = {
  key_refused: ({ host, url, ...key }) =>
    `The key of this project is not accepted by ${host}. Install it in the repository ${url} ` +
    `as a deploy key (with write access if Headrace deploys there), then try again. ${whichKey(key)}`,
  host_unreachable: ({ host, url }) =>
    `The host ${host} does not respond. ` +
    `Check the name in ${url}, that the host is up, and that this machine can reach it over ${url.startsWith('https:') ? 'HTTPS' : 'SSH'}.`,
  host_key_changed: ({ host }) =>
    `The host ${host} identifies itself with another key than before. ` +
    'Either it was reinstalled, or someone intercepts the connection. If the change is legitimate, ' +
    `ask an operator to remove the old key of ${host} from the runner's known_hosts file.`,
  host_key_unknown: ({ host }) =>
    `The host key of ${host} is not known to this runner, and its SSH configuration does not allow it to accept ` +
    'new ones. Ask an operator to add it to the known_hosts file.',
  repository_not_found: ({ host, url, ...key }) =>
    `The host ${host} answers, but has no repository at ${url}, or does not show it to the key of this project. ` +
    `Check the address, and that the key is installed there. ${whichKey(key)}`,
  malformed_repository: ({ url }) =>
    `The repository ${url} contains an object that git rejects; the log shows which. Git itself never creates such ` +
    'objects. Find it with `git fsck` in a clone, and remove it from the history.',
  commit_withheld: ({ host, url }) => `The host ${host} refuses to send this commit of ${url}.`,
  connection_lost: ({ host }) =>
    `The connection to ${host} was interrupted. Try again. If it happens again, check the host.`,
  ssh_misconfigured: () =>
    'The SSH configuration of this runner (HEADRACE_SSH_CONFIG) is not valid. ' +
    'The output of ssh in the log names the line, for the operator.',
  remote_failed: ({ host }) => `The host ${host} refused or failed. Its output is in the log.`,
};
