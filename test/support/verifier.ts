import assert from 'node:assert/strict';
import { createPublicKey, type JsonWebKey } from 'node:crypto';
import jwt, { type JwtPayload, type VerifyOptions } from 'jsonwebtoken';
import type { Client } from './client.ts';

/** Another service that believes tokens of builds. It knows only the issuer's address, and verifies with a library of others. */
export async function verify(api: Client, token: string, options: VerifyOptions = {}): Promise<JwtPayload> {
  const configuration = (await api.get('/.well-known/openid-configuration')).body as unknown as Record<string, string>;
  const { issuer = '', jwks_uri: address = '' } = configuration;
  assert.ok(address.startsWith(`${issuer}/`));
  const { keys } = (await api.get(address.slice(issuer.length))).body as unknown as { keys: JsonWebKey[] };
  const header = jwt.decode(token, { complete: true })?.header;
  const key = keys.find(({ kid }) => kid === header?.kid);
  assert.ok(key, 'the key of the token is published');
  const from = { issuer, algorithms: ['ES256' as const], ...options };
  return jwt.verify(token, createPublicKey({ key, format: 'jwk' }), from) as JwtPayload;
}
