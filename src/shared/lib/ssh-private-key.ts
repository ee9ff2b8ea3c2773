import { createHash, createPrivateKey, sign, type KeyObject } from 'node:crypto';

export interface SshPrivateKey {
  /** The line for `authorized_keys`. */
  publicKey: string;
  /** `SHA256:` and 43 letters. */
  fingerprint: string;
  /** In SSH's wire format. */
  publicBlob: Buffer;
  comment: string;
  sign(data: Uint8Array): Buffer;
}

const algorithm = 'ssh-ed25519';
const magic = 'openssh-key-v1\0';

/** Messages never quote the text: it is a secret even when it is malformed. */
export class UnreadableKeyError extends Error {
  override name = 'UnreadableKeyError';
}

/** Only unencrypted keys (`-----BEGIN OPENSSH PRIVATE KEY-----`). */
export function parseSshPrivateKey(pem: string): SshPrivateKey {
  const body = /-----BEGIN OPENSSH PRIVATE KEY-----([\s\S]+?)-----END OPENSSH PRIVATE KEY-----/.exec(pem)?.[1];
  if (body === undefined) throw new UnreadableKeyError('not a private key in OpenSSH format');
  const bytes = Buffer.from(body.replaceAll(/\s/g, ''), 'base64');
  if (bytes.subarray(0, magic.length).toString('latin1') !== magic) {
    throw new UnreadableKeyError('not a private key in OpenSSH format');
  }
  const outer = wireReader(bytes.subarray(magic.length));
  if (outer.string().toString() !== 'none')
    throw new UnreadableKeyError('the private key is protected by a passphrase');
  outer.string(); // the name of the key derivation: also 'none'
  outer.string(); // and its options: empty
  if (outer.uint32() !== 1) throw new UnreadableKeyError('more than one key in the file');
  const publicBlob = outer.string();
  const inner = wireReader(outer.string());
  if (inner.uint32() !== inner.uint32()) throw new UnreadableKeyError('the private key is damaged');
  if (inner.string().toString() !== algorithm)
    throw new UnreadableKeyError(`the private key is not of type ${algorithm}`);
  const publicPart = inner.string();
  const privatePart = inner.string().subarray(0, 32); // the seed, after which OpenSSH repeats the public half
  const comment = inner.string().toString();
  const key = ed25519Key(privatePart, publicPart);
  return {
    publicKey: `${algorithm} ${publicBlob.toString('base64')}${comment === '' ? '' : ` ${comment}`}`,
    fingerprint: `SHA256:${createHash('sha256').update(publicBlob).digest('base64').replace(/=+$/, '')}`,
    publicBlob,
    comment,
    sign: (data) => Buffer.concat([wireString(algorithm), wireString(sign(null, data, key))]),
  };
}

function ed25519Key(seed: Buffer, publicPart: Buffer): KeyObject {
  const jwk = { kty: 'OKP', crv: 'Ed25519', d: seed.toString('base64url'), x: publicPart.toString('base64url') };
  try {
    return createPrivateKey({ format: 'jwk', key: jwk });
  } catch {
    throw new UnreadableKeyError('the private key is damaged');
  }
}

/** SSH writes texts and blobs as a length, then the bytes. */
export function wireString(value: string | Uint8Array): Buffer {
  const bytes = Buffer.from(value);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

export interface WireReader {
  uint32(): number;
  string(): Buffer;
}

export function wireReader(bytes: Buffer): WireReader {
  let at = 0;
  const take = (size: number): Buffer => {
    if (at + size > bytes.length) throw new UnreadableKeyError('the key or message ends too early');
    at += size;
    return bytes.subarray(at - size, at);
  };
  const uint32 = (): number => take(4).readUInt32BE();
  return { uint32, string: () => take(uint32()) };
}
