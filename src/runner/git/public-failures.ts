import type { ProxyTrouble } from '../filtering-proxy.ts';
import { containsAny } from './phrases.ts';

/** `isLasting`: a later try would most likely fail too. */
export interface Unavailable {
  why: string;
  isLasting: boolean;
  /** The host refuses it, or reports that it is missing. */
  isRefused?: boolean;
  isRedirect?: boolean;
}

export const notPublic = 'its address is not public, and the operator of this runner has not allowed it';
const elsewhere = 'it redirects to another host, which is not followed';
const redirect: Unavailable = { why: 'it redirects to another address', isLasting: true, isRedirect: true };
const tooMuch = 'its host sends more than the checkout limit (HEADRACE_CHECKOUT_SIZE)';
export const silent: Unavailable = { why: 'its host does not answer', isLasting: false };

/** git's message if a host does not speak its protocol and lacks the repository's files. */
export const notObtained = 'cannot obtain needed object';

/** Messages of git and git-lfs, in lower case. The first match decides. */
const signs: readonly [phrases: readonly string[], why: string, isLasting: boolean][] = [
  [['git-lfs: …not found'], 'git-lfs is not installed on this runner', false],
  [['certificate', 'x509:'], 'this runner does not trust its certificate', true],
  [['is this a git repository', 'unable to update url base', notObtained], 'there is no git repository', true],
  [
    ['redirects followed', 'protocol … not supported', 'protocol … disabled'],
    'it redirects to an address that does not exist',
    true,
  ],
  [['expected oid', 'wrong size'], 'the content from its host does not match the pointer', true],
  [['server error', 'rate limit'], 'its host reports an error of its own', false],
  [['eof', 'hung up', 'rpc failed', 'transfer closed', 'broken pipe'], 'its host closed the connection early', false],
];

/** Explains a failure of git or git-lfs at public addresses. */
export function whyUnavailable(
  output: string,
  troubles: readonly ProxyTrouble[],
  asked = 'anonymous access',
  other = silent,
): Unavailable {
  if (troubles.includes('forbidden')) return { why: notPublic, isLasting: true };
  if (troubles.includes('elsewhere')) return { why: elsewhere, isLasting: true };
  if (troubles.includes('redirected')) return redirect;
  if (troubles.includes('too_much')) return { why: tooMuch, isLasting: true };
  if (troubles.includes('unreachable')) return silent;
  const status = statusIn(output);
  if (status !== undefined) return refusal(status, asked);
  const [, why, isLasting] = signs.find(([phrases]) => containsAny(output, phrases)) ?? [];
  return why === undefined || isLasting === undefined ? other : { why, isLasting };
}

/** For some statuses, git and git-lfs print words instead of the number. */
function statusIn(output: string): number | undefined {
  if (containsAny(output, ['could not read username', 'authentication failed', 'authorization error'])) return 401;
  if (containsAny(output, ["repository '… not found", 'repository or object not found'])) return 404;
  const [, first, second] = /returned error: (\d{3})\b|[[ ]([45]\d\d)\]/.exec(output) ?? [];
  return first === undefined && second === undefined ? undefined : Number(first ?? second);
}

function refusal(status: number, asked: string): Unavailable {
  if (status >= 300 && status < 400) return redirect;
  if (status === 429 || status >= 500) return { why: `its host answers ${status}`, isLasting: false };
  const isRefused = [401, 403, 404, 410].includes(status);
  return {
    why: isRefused ? `its host refuses ${asked} (${status})` : `its host answers ${status}`,
    isLasting: true,
    isRefused,
  };
}
