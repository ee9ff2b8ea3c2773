import { publicDocument } from '../http/public-document.ts';
import { scopes, type Scope } from '../http/route.ts';
import type { PlainRoutes } from '../http/plain-routes.ts';
import { boolean, object, string, strings } from '../../shared/records/schema.ts';
import { mcpPath } from './parameters.ts';

/** Public documents by which programs find out how to get a token (RFC 8414 and RFC 9728). */

const serverPath = '/.well-known/oauth-authorization-server';
export const resourcePath = `/.well-known/oauth-protected-resource${mcpPath}`;

/** Pages of any site may read them: they are the same for everybody. */
const headers = { 'cache-control': 'public, max-age=300', 'access-control-allow-origin': '*' };

export function oauthMetadata(issuer: () => string, agentScopes: readonly Scope[]): PlainRoutes<void> {
  return {
    provenBy: 'none',
    admit: async () => {},
    routes: [
      { method: 'GET', path: serverPath, handle: async () => ({ headers, content: serverOf(issuer()) }) },
      {
        method: 'GET',
        path: resourcePath,
        handle: async () => ({ headers, content: resourceOf(issuer(), agentScopes) }),
      },
    ],
  };
}

function serverOf(issuer: string): object {
  const methods = ['client_secret_basic', 'client_secret_post', 'none'];
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth2/authorize`,
    token_endpoint: `${issuer}/oauth2/access_token`,
    revocation_endpoint: `${issuer}/oauth2/revoke`,
    scopes_supported: Object.keys(scopes),
    response_types_supported: ['code', 'token'],
    response_modes_supported: ['query', 'fragment'],
    grant_types_supported: ['authorization_code', 'implicit'],
    token_endpoint_auth_methods_supported: methods,
    revocation_endpoint_auth_methods_supported: methods,
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
  };
}

function resourceOf(issuer: string, agentScopes: readonly Scope[]): object {
  return {
    resource: `${issuer}${mcpPath}`,
    resource_name: 'Headrace',
    authorization_servers: [issuer],
    scopes_supported: agentScopes,
    bearer_methods_supported: ['header'],
  };
}

export const metadataPaths = {
  [serverPath]: publicDocument(
    'fetchOauthServer',
    'Read where and how applications get tokens',
    object({
      issuer: string,
      authorization_endpoint: string,
      token_endpoint: string,
      revocation_endpoint: string,
      scopes_supported: strings,
      response_types_supported: strings,
      response_modes_supported: strings,
      grant_types_supported: strings,
      token_endpoint_auth_methods_supported: strings,
      revocation_endpoint_auth_methods_supported: strings,
      code_challenge_methods_supported: strings,
      authorization_response_iss_parameter_supported: boolean,
      client_id_metadata_document_supported: boolean,
    }),
  ),
  [resourcePath]: publicDocument(
    'fetchOauthResource',
    'Read who gives tokens for the tools for agents',
    object({
      resource: string,
      resource_name: string,
      authorization_servers: strings,
      scopes_supported: strings,
      bearer_methods_supported: strings,
    }),
  ),
};
