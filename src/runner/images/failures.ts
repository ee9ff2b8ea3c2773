import { CannotRunError, type CannotRunReason } from '../cannot-run.ts';
import type { ProxyTrouble } from '../filtering-proxy.ts';

/** Patterns for skopeo's messages, which quote the registries' messages. The first match decides. */
const meanings: readonly [RegExp, CannotRunReason, string][] = [
  [
    /x509:|tls: |certificate|server gave HTTP response to HTTPS client/i,
    'registry_untrusted',
    'this runner does not trust its certificate',
  ],
  [
    /source image rejected|signature.*required/i,
    'image_rejected',
    "the policy of the runner's machine for images (/etc/containers/policy.json) refuses it",
  ],
  [
    /digest did not match|does not match.*digest|digest.*mismatch|provided digest/i,
    'image_digest_mismatch',
    'the registry sent content with another digest',
  ],
  [/toomanyrequests|too many requests|status code.* (?:429|5\d\d)/i, 'registry_unreachable', 'it cannot answer now'],
  [
    /unauthorized|authentication required|invalid username|denied|forbidden|status code.* 40[13]/i,
    'image_access_refused',
    'it rejects the credentials of this account, or needs credentials and there are none',
  ],
  [
    /manifest unknown|name unknown|name invalid|repository name not known|not found|status code.* 404/i,
    'image_not_found',
    'it has no such image',
  ],
  [
    /timeout|deadline exceeded|connection (?:refused|reset)|\bEOF\b|no route|broken pipe/i,
    'registry_unreachable',
    'it does not answer',
  ],
];

export function pullFailure(host: string, output: string, troubles: readonly ProxyTrouble[]): CannotRunError {
  const at = `The registry ${host}`;
  if (troubles.includes('forbidden'))
    return new CannotRunError(
      'registry_not_allowed',
      `${at} has, or leads to, an address that is not public, and the operator of this runner has not allowed it (HEADRACE_REGISTRY_ALLOW).`,
    );
  const [, reason, explanation] = meanings.find(([form]) => form.test(output)) ?? [];
  if (reason !== undefined && reason !== 'registry_unreachable')
    return new CannotRunError(reason, `${at}: ${explanation}.`);
  if (troubles.includes('unreachable') || reason !== undefined)
    return new CannotRunError('registry_unreachable', `${at}: ${explanation ?? 'it does not answer'}.`);
  return new CannotRunError('image_pull_failed', `${at}: the image could not be pulled. ${lastLine(output)}`);
}

/** The last line without log prefixes and control characters. */
export function lastLine(output: string): string {
  const line = output.trim().split('\n').at(-1) ?? '';
  return line
    .replaceAll(/^time="[^"]*" level=\w+ msg=/g, '')
    .replaceAll(/\p{Cc}/gu, ' ')
    .slice(0, 1000);
}
