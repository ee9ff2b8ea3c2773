import type { Database } from '../db/open.ts';
import { clientWithSecret, type Client } from './clients.ts';
import { OauthError, type Parameters } from './parameters.ts';

/** RFC 6749 section 2.3.1: credentials are sent with Basic or in the body, not both. The query is ignored. */
export async function identify(
  header: string | undefined,
  parameters: Parameters,
  { read }: Database,
): Promise<Client> {
  const basic = header === undefined ? undefined : readBasic(header);
  const [id, secret] = [parameters('client_id'), parameters('client_secret')];
  if (basic && (secret !== undefined || (id !== undefined && id !== basic.id))) {
    throw new OauthError('invalid_request', 'the application identified itself in two ways');
  }
  const claimed = basic ?? { id, secret };
  if (claimed.id === undefined) throw new OauthError('invalid_client', 'client_id is missing');
  const client = await clientWithSecret(read, claimed.id, claimed.secret);
  if (!client) throw new OauthError('invalid_client', 'the application is unknown, or its secret is wrong');
  return client;
}

function readBasic(header: string): { id: string; secret: string | undefined } {
  const [, encoded = ''] = /^basic +(\S+)$/i.exec(header) ?? [];
  const [, id, secret] = /^([^:]+):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? [];
  if (id === undefined || secret === undefined)
    throw new OauthError('invalid_client', 'the credentials are not in Basic form');
  return { id: formDecoded(id), secret: secret === '' ? undefined : formDecoded(secret) };
}

/** RFC 6749 section 2.3.1: both parts are form-encoded before they are joined. */
function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new OauthError('invalid_client', 'the credentials cannot be read');
  }
}
