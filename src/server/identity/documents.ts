import { publicDocument } from '../http/public-document.ts';
import type { PlainRoutes } from '../http/plain-routes.ts';
import { listOf, mapOf, object, string, strings } from '../../shared/records/schema.ts';
import { algorithm, type SigningKeys } from './keys.ts';
import { buildClaims } from './tokens.ts';

/** The documents by which other services verify tokens of builds. They contain nothing secret. */

const configurationPath = '/.well-known/openid-configuration';
const keysPath = '/.well-known/jwks.json';

const cached = { 'cache-control': 'public, max-age=300' };

export interface DocumentParts {
  keys: Pick<SigningKeys, 'published'>;
  issuer: () => string;
}

export function identityDocuments({ keys, issuer }: DocumentParts): PlainRoutes<undefined> {
  return {
    provenBy: 'none',
    admit: async () => undefined,
    routes: [
      {
        method: 'GET',
        path: configurationPath,
        handle: async () => ({ headers: cached, content: configurationOf(issuer()) }),
      },
      {
        method: 'GET',
        path: keysPath,
        handle: async () => ({ headers: cached, content: { keys: await keys.published() } }),
      },
    ],
  };
}

function configurationOf(issuer: string): object {
  return {
    issuer,
    jwks_uri: `${issuer}${keysPath}`,
    response_types_supported: ['id_token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [algorithm],
    scopes_supported: ['openid'],
    claims_supported: ['iss', 'sub', 'aud', 'iat', 'nbf', 'exp', 'jti', ...buildClaims],
  };
}

export const identityPaths = {
  [configurationPath]: publicDocument(
    'fetchOpenIdConfiguration',
    'Read who signs the tokens of builds, and how',
    object({
      issuer: string,
      jwks_uri: string,
      response_types_supported: strings,
      subject_types_supported: strings,
      id_token_signing_alg_values_supported: strings,
      scopes_supported: strings,
      claims_supported: strings,
    }),
  ),
  [keysPath]: publicDocument(
    'fetchJwks',
    'Read the public keys that verify the tokens of builds',
    object({ keys: listOf(mapOf(string)) }),
  ),
};
