import { bytes, longest, most } from '../../shared/domain/bounds.ts';
import { guardedRequest } from '../../shared/lib/guarded-request.ts';
import type { AddressRules } from '../../shared/lib/address-filter.ts';
import { createLimiter } from '../../shared/lib/limiter.ts';
import { readUntrustedObject } from '../../shared/lib/untrusted-json.ts';
import { isApplicationName, type Client } from './clients.ts';
import { isRedirectAddress } from './redirects.ts';

/** Client ID Metadata Documents: an application that is not registered is the address of a document about it. */
export interface ClientDocuments {
  /** Undefined if the address or its document is not fit. `account` is who waits for it. */
  fetch(url: string, account: bigint): Promise<Client | undefined>;
}

const fetchMs = 5000;
const fetchesOfAccount = 2;

export function isDocumentAddress(text: string): boolean {
  if (!text.startsWith('https://') || text.length > longest.redirectAddress || !URL.canParse(text)) return false;
  const { href, pathname, search, hash, username, password } = new URL(text);
  // Only one spelling of each address, so that a document is one application.
  return href === text && pathname !== '/' && search === '' && hash === '' && username === '' && password === '';
}

export function clientDocuments(rules: AddressRules): ClientDocuments {
  const turns = createLimiter(fetchesOfAccount);
  return {
    async fetch(url, account) {
      const { signal } = new AbortController();
      const release = await turns.take(String(account), signal);
      const headers = { accept: 'application/json' };
      const limits = { ...rules, answerWithin: fetchMs, signal };
      try {
        const text = await guardedRequest({ url, method: 'GET', headers }, limits, async (incoming) => {
          const isJson = /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(incoming.headers['content-type'] ?? '');
          return incoming.statusCode === 200 && isJson ? textOf(incoming) : undefined;
        });
        return text === undefined ? undefined : clientIn(readUntrustedObject(text), url);
      } catch {
        return undefined; // the reason could tell what is inside this network
      } finally {
        release();
      }
    },
  };
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string | undefined> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    pieces.push(piece);
    size += piece.length;
    if (size > bytes.clientDocument) return undefined;
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(pieces));
}

function clientIn(document: Record<string, unknown>, url: string): Client | undefined {
  const { client_id: id, client_name: name, redirect_uris: redirects } = document;
  const { token_endpoint_auth_method: method = 'none', client_secret: secret } = document;
  // Everybody can read the document, so there is no secret.
  if (id !== url || method !== 'none' || secret !== undefined) return undefined;
  if (!Array.isArray(redirects) || redirects.length === 0 || redirects.length > most.redirectAddresses)
    return undefined;
  const isFit = redirects.every((address) => typeof address === 'string' && isRedirectAddress(address));
  if (!isFit) return undefined;
  const { host } = new URL(url);
  const isName = typeof name === 'string' && name.length <= longest.applicationName && isApplicationName(name);
  return {
    id: 0n,
    ownerId: null,
    // The document may call itself anything, so the host is part of the name.
    name: isName ? `${name.trim()} (${host})` : host,
    redirectUris: redirects as string[],
    isPublic: true,
    createdAt: 0n,
    documentUrl: url,
  };
}
