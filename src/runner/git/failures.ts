/** Why a repository could not be reached or did not give what was asked for. */
export type FetchFailure = RemoteFailure | 'invalid_url' | 'invalid_ref' | 'ref_not_found' | 'ambiguous_ref';

/** Those that ssh, git or the host report. */
export type RemoteFailure =
  | 'key_refused'
  | 'host_unreachable'
  | 'host_key_changed'
  | 'host_key_unknown'
  | 'repository_not_found'
  | 'commit_withheld'
  | 'connection_lost'
  | 'ssh_misconfigured'
  | 'remote_failed';

/** Something outside this program must change. The message tells a person what; the log has it already. */
export class FetchError extends Error {
  override name = 'FetchError';
  kind: FetchFailure;

  constructor(kind: FetchFailure, message: string) {
    super(message);
    this.kind = kind;
  }
}

/*
 * What ssh and git say when they fail (they run with the C locale). The first that fits decides, so what is
 * certain stands before what may be a mere consequence of it.
 */
const signs: readonly (readonly [RegExp, RemoteFailure])[] = [
  [/not our ref|does not allow request for unadvertised|couldn't find remote ref/i, 'commit_withheld'],
  [/REMOTE HOST IDENTIFICATION HAS CHANGED/, 'host_key_changed'],
  [/Host key verification failed|host key is known for .* and you have requested strict/i, 'host_key_unknown'],
  [/bad configuration option|terminating, \d+ bad configuration|keyword .* extra arguments/i, 'ssh_misconfigured'],
  [/Permission denied \(|Too many authentication failures|No supported authentication methods/i, 'key_refused'],
  [
    /does not appear to be a git repository|repository .*not found|could not find repository|project .*(not found|could not be found)|no such (project|repository)/i,
    'repository_not_found',
  ],
  [
    /Connection refused|Connection timed out|timed out|No route to host|Network is unreachable|Could not resolve hostname|Host is down|kex_exchange_identification|banner exchange|Connection (closed|reset) by|stdio forwarding failed|Connection to .* port \d+ failed/i,
    'host_unreachable',
  ],
  [/Broken pipe|the remote end hung up|early EOF|unexpected disconnect|Timeout, server/i, 'connection_lost'],
  [
    /Could not read from remote repository|not our ref|does not allow request|couldn't find remote ref|protocol error|mismatched algorithms/i,
    'remote_failed',
  ],
];

/** What git says of its own copy. It may complain of the remote as well, which only suffers from it. */
const damage =
  /bad object|bad ref|not a git repository: |did not send all necessary objects|unresolved delta|corrupt|does not point to a valid object|packfile .* (cannot|does not|is far too short)|unable to (read|open) (tree|commit|blob|object)|index file .* (is too small|is corrupt)|missing (blob|tree|commit)/i;

/** Undefined when the words do not point to the other side. */
export function recognize(words: string): RemoteFailure | undefined {
  if (damage.test(words)) return undefined;
  return signs.find(([sign]) => sign.test(words))?.[1];
}

export interface Circumstances {
  url: string;
  host: string;
  publicKey: string;
}

/** What to do about it, in words. */
export function explain(kind: RemoteFailure, circumstances: Circumstances): string {
  return advice[kind](circumstances);
}

const advice: Record<RemoteFailure, (circumstances: Circumstances) => string> = {
  key_refused: ({ host, url, publicKey }) =>
    `The key of this project is not accepted by ${host}. ` +
    `Install this public key in the repository ${url} (as a deploy key; to deploy there, one that may write), then try again:\n${publicKey}`,
  host_unreachable: ({ host, url }) =>
    `The host ${host} does not answer. ` +
    `Check the name in ${url}, that the host is up, and that this machine may reach it over SSH.`,
  host_key_changed: ({ host }) =>
    `The host ${host} identifies itself with another key than before. ` +
    'Either it was set up anew, or somebody stands in between. If the change is legitimate, ' +
    `an operator removes the old key of ${host} from the runner's known_hosts file.`,
  host_key_unknown: ({ host }) =>
    `The host key of ${host} is not known to this runner, and its SSH configuration does not allow it to accept ` +
    'new ones. An operator adds it to the known_hosts file.',
  repository_not_found: ({ host, url, publicKey }) =>
    `The host ${host} answers, but has no repository at ${url}, or does not show it to this key. ` +
    `Check the address, and that this public key is installed there:\n${publicKey}`,
  commit_withheld: ({ host, url }) => `The host ${host} does not give this commit of ${url} out.`,
  connection_lost: ({ host }) =>
    `The connection to ${host} broke off in the middle. Try again; if it happens again, look at the host.`,
  ssh_misconfigured: () =>
    'The SSH configuration of this runner (HEADRACE_SSH_CONFIG) is not valid. ' +
    'An operator finds the line in what ssh says above.',
  remote_failed: ({ host }) => `The host ${host} refused or failed; what it said stands above.`,
};
