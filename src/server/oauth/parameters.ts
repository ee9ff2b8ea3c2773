import { scopes as known, type Scope } from '../http/route.ts';
import { repeated, type RawGroup } from '../../shared/records/raw.ts';

/**
 * RFC 6749 sections 3.1 and 3.2: empty parameters count as not sent, unknown parameters are ignored, and no parameter
 * may be repeated.
 */
export type Parameters = (name: string) => string | undefined;

/** The error codes of RFC 6749, sections 4.1.2.1 and 5.2, and of RFC 8707. */
export type OauthErrorCode =
  | 'invalid_request'
  | 'invalid_client'
  | 'invalid_grant'
  | 'unauthorized_client'
  | 'unsupported_grant_type'
  | 'unsupported_response_type'
  | 'invalid_scope'
  | 'invalid_target'
  | 'access_denied';

export class OauthError extends Error {
  readonly code: OauthErrorCode;

  constructor(code: OauthErrorCode, description: string) {
    super(description);
    this.name = 'OauthError';
    this.code = code;
  }
}

export function parametersOf(sent: RawGroup): Parameters {
  return (name) => {
    const value = sent[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
}

export function refuseRepeated(sent: RawGroup, names: readonly string[]): void {
  for (const name of names) {
    const value = sent[name];
    if (value === repeated) throw new OauthError('invalid_request', `${name} was sent more than once`);
    if (value !== undefined && typeof value !== 'string') {
      throw new OauthError('invalid_request', `${name} must be plain text`);
    }
  }
}

export const mcpPath = '/mcp';

/** RFC 8707: what the token is for. Undefined if the application did not send it. */
export function readResource(text: string | undefined, origin: string): 'server' | 'mcp' | undefined {
  if (text === undefined) return undefined;
  if (text === `${origin}${mcpPath}`) return 'mcp';
  if (text === origin || text === `${origin}/`) return 'server';
  throw new OauthError('invalid_target', `resource is ${origin} or ${origin}${mcpPath}`);
}

const leastScope: Scope = 'user';

/** RFC 6749 section 3.3 separates scopes by spaces. Commas are accepted too. */
export function readScopes(text: string | undefined): Scope[] {
  const names = (text ?? '').split(/[ ,]+/).filter((name) => name !== '');
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw new OauthError('invalid_scope', 'one of the scopes does not exist');
  return names.length === 0 ? [leastScope] : ([...new Set(names)] as Scope[]);
}
