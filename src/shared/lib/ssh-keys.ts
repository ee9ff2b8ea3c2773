import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { wireString } from './ssh-private-key.ts';

/**
 * In OpenSSH's formats. Debian 12's ssh cannot read Ed25519 in Node's PKCS#8, and ssh-keygen would put the key on disk.
 */
export function generateSshKeyPair(comment: string): { publicKey: string; privateKey: string } {
  const pair = generateKeyPairSync('ed25519');
  const { x = '', d = '' } = pair.privateKey.export({ format: 'jwk' });
  const point = Buffer.from(x, 'base64url');
  const seed = Buffer.from(d, 'base64url');
  const publicBlob = Buffer.concat([wireString('ssh-ed25519'), wireString(point)]);
  return {
    publicKey: `ssh-ed25519 ${publicBlob.toString('base64')} ${comment}`,
    privateKey: privateKeyFile(publicBlob, point, seed, comment),
  };
}

/** The layout is described in OpenSSH's PROTOCOL.key. */
function privateKeyFile(publicBlob: Buffer, point: Buffer, seed: Buffer, comment: string): string {
  const check = randomBytes(4); // the same number twice proves a correct decryption
  const secrets = Buffer.concat([
    check,
    check,
    wireString('ssh-ed25519'),
    wireString(point),
    wireString(Buffer.concat([seed, point])),
    wireString(comment),
  ]);
  const blockSize = 8;
  const padding = Buffer.from(
    Array.from({ length: (blockSize - (secrets.length % blockSize)) % blockSize }, (_, i) => i + 1),
  );
  const body = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    wireString('none'), // cipher
    wireString('none'), // key derivation
    wireString(''),
    Buffer.from([0, 0, 0, 1]), // number of keys
    wireString(publicBlob),
    wireString(Buffer.concat([secrets, padding])),
  ]);
  const lines = body.toString('base64').match(/.{1,70}/g) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}
