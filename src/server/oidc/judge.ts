import type { Vouched } from '../auth/identities.ts';
import { normalizeEmail } from '../auth/users.ts';
import type { IssuerSettings } from './issuer.ts';

type Rules = Pick<IssuerSettings, 'allowedGroups' | 'allowedDomains' | 'operatorGroup'>;

/** Why the settings do not admit this user of the issuer, if they do not. */
export function whyNotAdmitted(
  rules: Rules,
  { groups, email }: Vouched,
): 'group' | 'domain' | 'unverified' | undefined {
  const { allowedGroups, allowedDomains } = rules;
  if (allowedGroups.length > 0 && !groups.some((group) => allowedGroups.includes(group))) return 'group';
  if (allowedDomains.length === 0) return undefined;
  const address = normalizeEmail(email ?? '');
  if (address === undefined) return 'unverified';
  return allowedDomains.includes(address.slice(address.lastIndexOf('@') + 1)) ? undefined : 'domain';
}

/** A refresh may leave the address out. Then only the groups decide. */
export function whyNoLonger(rules: Rules, vouched: Vouched): 'group' | 'domain' | undefined {
  const why = whyNotAdmitted(vouched.hasAddress ? rules : { ...rules, allowedDomains: [] }, vouched);
  return why === 'unverified' ? 'domain' : why;
}

export function isOperatorBy({ operatorGroup }: Rules, { groups }: Vouched): boolean {
  return operatorGroup !== '' && groups.includes(operatorGroup);
}
