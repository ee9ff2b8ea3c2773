import { readText, type Config } from '../shared/config.ts';
import type { IssuerSettings } from './oidc/issuer.ts';

/** Undefined if users sign in only here. */
export function issuerSettings(config: Config): IssuerSettings | undefined {
  const { oidc_issuer: issuer, oidc_client_id: clientId, base_url: baseUrl } = config;
  if (issuer === undefined || clientId === undefined || baseUrl === undefined) return undefined;
  const { oidc_client_secret: secret, oidc_client_secret_file: file = '' } = config;
  return {
    issuer,
    clientId,
    clientSecret: secret ?? readText(file) ?? '',
    redirectUri: `${baseUrl.replace(/\/+$/, '')}/ui/oidc/callback`,
    name: config.oidc_name ?? new URL(issuer).host,
    scopes: config.oidc_scopes,
    groupsClaim: config.oidc_groups_claim,
    allowedGroups: config.oidc_allowed_groups,
    operatorGroup: config.oidc_operator_group,
    allowedDomains: config.oidc_allowed_domains.map((domain) => domain.toLowerCase().replace(/^@/, '')),
    hasSignUp: config.oidc_sign_up === 'on',
    trustsEmail: config.oidc_trust_email === 'on',
  };
}
