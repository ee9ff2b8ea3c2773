import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';
import { chmodSync, existsSync, linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { flushFolderOf } from './folders.ts';

/**
 * Seals secrets for the store: AES-256-CBC, then HMAC-SHA256 over everything and the location. So a changed value does
 * not open, nor does one moved to another row.
 *
 * Sealed form, in base64: version (2) · key number (4) · IV (16) · ciphertext · MAC (32). Both databases return text
 * most cheaply.
 *
 * The master keys are lines of a file, `<number in hex>:<base64>`. The first key seals and all open, so keys can rotate
 * while servers run. A server rereads the file for an unknown key, and before it seals if the file has changed.
 */
export interface Vault {
  seal(text: string, place: string): string;
  open(sealed: string, place: string): string;
  /** A hash that nobody can make without the master key. Adding a key does not change it; removing the old ones does. */
  keyedHash(text: string): string;
  /** The prefix of every value sealed with the current key. It finds values sealed with another. */
  currentPrefix(): string;
  /** For texts that leave the server and come back. Signatures have a key of their own, and 43 letters for an address. */
  sign(text: string, place: string): string;
  /** In constant time. Also true for another key of the file, so a rotation ends no signature at once. */
  isSigned(text: string, place: string, signature: string): boolean;
}

export class BrokenSealError extends Error {
  constructor(place: string, why: string) {
    super(`the sealed value at ${place} cannot be opened: ${why}`);
    this.name = 'BrokenSealError';
  }
}

const version = 1;
/** A multiple of three, so that the header is a prefix of the base64 too. */
const headerLength = 6;
const ivLength = 16;
const macLength = 32;

interface MasterKey {
  number: number;
  secret: Buffer;
}
/** Key objects: with plain bytes, Node would import the key for each value, at five times the cost. */
interface WorkingKeys {
  number: number;
  cipher: KeyObject;
  mac: KeyObject;
  signing: KeyObject;
  hash: KeyObject;
}

export function openVault(file: string): Vault {
  let keys: WorkingKeys[] = [];
  let seen = '';
  const refresh = (): WorkingKeys => {
    const { mtimeMs, ino } = statSync(file);
    const stamp = `${ino}:${mtimeMs}`;
    if (stamp !== seen) {
      keys = readMasterKeys(file).map(derive);
      seen = stamp;
    }
    const [current] = keys;
    if (!current) throw new Error(`${file} contains no master key`);
    return current;
  };
  refresh();
  const find = (number: number): WorkingKeys | undefined => keys.find((key) => key.number === number);

  return {
    seal(text, place) {
      const key = refresh();
      const iv = randomBytes(ivLength);
      const cipher = createCipheriv('aes-256-cbc', key.cipher, iv);
      const body = Buffer.concat([headerOf(key), iv, cipher.update(text, 'utf8'), cipher.final()]);
      return Buffer.concat([body, authenticate(key, body, place)]).toString('base64');
    },
    open,
    keyedHash(text) {
      const newest = refresh();
      const oldest = keys.at(-1) ?? newest;
      return createHmac('sha256', oldest.hash).update(text).digest('hex');
    },
    currentPrefix: () => headerOf(refresh()).toString('base64'),
    sign: (text, place) => signatureOf(refresh(), text, place),
    isSigned(text, place, signature) {
      refresh();
      const given = Buffer.from(signature);
      return keys.some((key) => {
        const own = Buffer.from(signatureOf(key, text, place));
        return own.length === given.length && timingSafeEqual(own, given);
      });
    },
  };

  function open(sealed: string, place: string): string {
    const bytes = Buffer.from(sealed, 'base64');
    if (bytes.length < headerLength + ivLength + macLength || bytes.readUInt16BE() !== version) {
      throw new BrokenSealError(place, 'it is not a sealed value');
    }
    const number = bytes.readUInt32BE(2);
    if (!find(number)) refresh();
    const key = find(number);
    if (!key) throw new BrokenSealError(place, `master key ${number.toString(16)} is missing`);
    const body = bytes.subarray(0, -macLength);
    if (!timingSafeEqual(authenticate(key, body, place), bytes.subarray(-macLength))) {
      throw new BrokenSealError(place, 'it was changed or moved');
    }
    const iv = body.subarray(headerLength, headerLength + ivLength);
    const decipher = createDecipheriv('aes-256-cbc', key.cipher, iv);
    return decipher.update(body.subarray(headerLength + ivLength), undefined, 'utf8') + decipher.final('utf8');
  }
}

export function sealedWith(sealed: string): string {
  return hex(Buffer.from(sealed.slice(0, 8), 'base64').readUInt32BE(2));
}

function headerOf(key: WorkingKeys): Buffer {
  const header = Buffer.alloc(headerLength);
  header.writeUInt16BE(version);
  header.writeUInt32BE(key.number, 2);
  return header;
}

function authenticate(key: WorkingKeys, body: Buffer, place: string): Buffer {
  return createHmac('sha256', key.mac).update(body).update(place).digest();
}

function signatureOf(key: WorkingKeys, text: string, place: string): string {
  return createHmac('sha256', key.signing).update(`${place}\n${text}`).digest('base64url');
}

function derive({ number, secret }: MasterKey): WorkingKeys {
  const expand = (purpose: string): KeyObject =>
    createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `headrace ${purpose}`, 32)));
  const [cipher, mac] = [expand('encrypt'), expand('authenticate')];
  return { number, cipher, mac, signing: expand('sign'), hash: expand('hash') };
}

function readMasterKeys(file: string): MasterKey[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('#'))
    .map((line, index) => {
      const [number = '', secret = ''] = line.trim().split(':');
      const bytes = Buffer.from(secret, 'base64');
      if (!/^[0-9a-f]{8}$/.test(number) || bytes.length !== 32) {
        throw new Error(`${file}: key ${index + 1} is malformed`); // the line itself is secret
      }
      return { number: Number.parseInt(number, 16), secret: bytes };
    });
}

/** If two processes start together, the second finds the first's key. */
export function createMasterKey(file: string): void {
  if (existsSync(file)) return;
  const fresh = `${file}.${randomBytes(4).toString('hex')}`;
  try {
    writeKeyFile(fresh, [randomMasterKey()]);
    linkSync(fresh, file); // unlike a rename, a link never replaces a key that the other process may have used
  } catch (error) {
    if (!existsSync(file)) throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
  flushFolderOf(file);
}

/** The sealing key comes first. */
export function masterKeyNumbers(file: string): string[] {
  return readMasterKeys(file).map((key) => hex(key.number));
}

/** The new key seals from now on. The older ones only open. */
export function addMasterKey(file: string): void {
  writeMasterKeys(file, [randomMasterKey(), ...readMasterKeys(file)]);
}

/** Values still sealed with another key are lost. */
export function dropOldMasterKeys(file: string): void {
  writeMasterKeys(file, readMasterKeys(file).slice(0, 1));
}

function randomMasterKey(): MasterKey {
  return { number: randomBytes(4).readUInt32BE(), secret: randomBytes(32) };
}

function hex(number: number): string {
  return number.toString(16).padStart(8, '0');
}

function writeMasterKeys(file: string, keys: MasterKey[]): void {
  const fresh = `${file}.new`;
  writeKeyFile(fresh, keys);
  renameSync(fresh, file);
  flushFolderOf(file); // otherwise the database could outlive the key that sealed its newest values
}

function writeKeyFile(file: string, keys: MasterKey[]): void {
  const lines = keys.map(({ number, secret }) => `${hex(number)}:${secret.toString('base64')}\n`);
  const text = `# Headrace's master keys. Anyone with this file and the database can read every stored secret.\n${lines.join('')}`;
  writeFileSync(file, text, { mode: 0o600, flush: true });
  chmodSync(file, 0o600);
}
