import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import * as fc from 'fast-check';
import {
  destinationOf,
  isSameRepository,
  parseGitAddress,
  pastedAddress,
  scpLikeForm,
  type GitAddress,
} from '../src/shared/domain/git-address.ts';
import { parseSshPrivateKey, UnreadableKeyError, wireString } from '../src/shared/lib/ssh-private-key.ts';
import { evaluate, type Texts } from '../src/server/lifecycle/rules.ts';
import { fitsOperator } from '../src/shared/domain/rule-expressions.ts';
import { operators, subjects } from '../src/shared/domain/rule-operators.ts';
import { readCommitObject } from '../src/runner/git/commit-object.ts';
import { withoutProgress } from '../src/runner/git/progress.ts';
import { resolveSubmoduleUrl } from '../src/runner/git/submodules.ts';
import { processorTime } from '../test/support/event-loop.ts';
import { mutated, oddBytes } from './mutations.ts';
import { pure } from './target.ts';

/** An unchanging key, so that a seed means the same each time. */
function keyBody(): Buffer {
  const seed = Buffer.alloc(32, 7);
  const wrapped = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), seed]);
  const { x = '' } = createPublicKey(createPrivateKey({ key: wrapped, format: 'der', type: 'pkcs8' })).export({
    format: 'jwk',
  });
  const point = Buffer.from(x, 'base64url');
  const number = Buffer.from([0, 0, 0, 1]);
  const secrets = [number, number, ...['ssh-ed25519', point, Buffer.concat([seed, point]), 'comment'].map(wireString)];
  const publicBlob = Buffer.concat(['ssh-ed25519', point].map(wireString));
  const outer = [...['none', 'none', ''].map(wireString), number, wireString(publicBlob)];
  return Buffer.concat([Buffer.from('openssh-key-v1\0'), ...outer, wireString(Buffer.concat(secrets))]);
}

/** A key that cannot be read is said to be so, in words that hold nothing of it. */
export const keys = pure(
  'ssh-keys',
  300,
  fc.property(mutated(fc.constant(keyBody())), mutated(fc.constant(Buffer.from('\n'))), (body, around) => {
    const text = body.toString('base64');
    const pem = `-----BEGIN OPENSSH PRIVATE KEY-----\n${text}${around.toString('latin1')}-----END OPENSSH PRIVATE KEY-----`;
    try {
      assert.ok(parseSshPrivateKey(pem).sign(Buffer.from('data')).length > 64);
    } catch (error) {
      assert.ok(error instanceof UnreadableKeyError, String(error));
      assert.ok(text === '' || !error.message.includes(text.slice(-40)));
    }
  }),
);

const path = fc.string({ unit: fc.constantFrom('a', '.', '/', '-', ':', '@', ' ', '\n', '~', '%', 'ü', '[', ']') });
const address = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('', 'git@', '-o@', 'a b@'),
      fc.constantFrom('host', '-host', '[::1]', '::1', 'h.x', ''),
      path,
    )
    .map(([user, host, rest]) => `${user}${host}:${rest}`),
  fc
    .tuple(
      fc.constantFrom('ssh://', 'ssh://git@', 'ssh://-o@', 'git+ssh://'),
      fc.constantFrom('h:22', 'h:0', 'h:65536', '[::1]:2', '-h'),
      path,
    )
    .map(([scheme, host, rest]) => `${scheme}${host}/${rest}`),
  fc.constantFrom('ext::sh -c x', 'file:///etc', '--upload-pack=x:y', 'host:-x', 'host::x'),
  fc.string({ unit: 'binary' }),
);

/** What passes is no option, no command and no other transport, for git as for ssh. */
function assertHarmless(address: GitAddress): void {
  const { scheme, url, user, host, port = 1, path } = address;
  for (const word of [url, destinationOf(address), host, path]) {
    assert.ok(!word.startsWith('-'), word);
    assert.doesNotMatch(word, /[\s\p{Cc}]/u);
  }
  assert.match(url, url.includes('://') ? /^(?:https|ssh):\/\// : /^[^:[]+:[^:]|^[^[]*\[[^\]]+\]:[^:]/);
  assert.ok(host !== '' && path !== '' && port > 0 && port < 65_536, url);
  assert.ok(scheme === 'ssh' || user === '', url);
  assert.doesNotMatch(path, /(?:^|\/)\.\.?(?:\/|$)/);
  assert.ok(isSameRepository(url, scpLikeForm(url)), url);
  assert.equal(scpLikeForm(scpLikeForm(url)), scpLikeForm(url));
}

export const urls = pure(
  'repository-urls',
  1000,
  fc.property(address, fc.tuple(fc.constantFrom('', './', '../', '../../'), address), (url, [up, other]) => {
    const pasted = parseGitAddress(pastedAddress(url));
    if (pasted !== undefined) assertHarmless(pasted);
    const base = parseGitAddress(url);
    if (base === undefined) return;
    assertHarmless(base);
    const module = resolveSubmoduleUrl(base, up + other);
    if (module !== undefined) assertHarmless(module);
  }),
);

const publicAddress = fc
  .tuple(
    fc.constantFrom('https://', 'HTTPS://', 'http://', 'https:', 'https:///', 'git+https://'),
    fc.constantFrom('', 'me@', 'me:pass@', ':@', 'a@b@'),
    fc.constantFrom('host', '-host', '[::1]', '127.1', '0x7f.1', 'h.x:8443', 'h:99999', 'hö', 'h%00', ''),
    path,
    fc.constantFrom('', '?x=y', '#x', '/..', '\\..\\x'),
  )
  .map((parts) => parts.join(''));

/** A public address is https, holds no credentials, and what git is told of it is no option. */
export const publicUrls = pure(
  'public-urls',
  1000,
  fc.property(
    publicAddress,
    fc.tuple(fc.constantFrom('', './', '../', '../../'), fc.oneof(path, publicAddress)),
    (url, [up, other]) => {
      const base = parseGitAddress(pastedAddress(url));
      if (base?.scheme !== 'https') return;
      assertHarmless(base);
      const module = resolveSubmoduleUrl(base, up + other);
      for (const found of module?.scheme === 'https' ? [base, module] : [base]) {
        const parsed = new URL(found.url);
        assert.deepEqual([parsed.protocol, parsed.username, parsed.password, parsed.search], ['https:', '', '', '']);
        assertHarmless(found);
        assert.equal(parseGitAddress(found.url)?.url, found.url);
      }
    },
  ),
);

const said = fc.array(
  fc.constantFrom(
    'remote: ',
    'Counting objects:  50% (1/2)',
    'Total 1 (delta 0), reused 0 (delta 0)',
    ', done.',
    '\r',
    '\n',
    '\r\n',
    'x',
    ' ',
    'ü',
    'Receiving objects: 7',
    'y'.repeat(300),
    '\x1b[K',
  ),
  { maxLength: 40 },
);

/** What is left of a log does not depend on how it was cut; nothing is added, and in it there is no line of progress. */
export const progress = pure(
  'progress',
  300,
  fc.asyncProperty(said, fc.array(fc.nat(50), { maxLength: 20 }), async (words, cuts) => {
    const bytes = Buffer.from(words.join(''));
    const sift = async (sizes: readonly number[]): Promise<string> => {
      let told = '';
      const heard = withoutProgress(async (chunk) => void (told += chunk.toString('latin1')));
      let at = 0;
      for (const size of [...sizes, bytes.length]) await heard.output(bytes.subarray(at, (at += size)));
      await heard.flush();
      return told;
    };
    const whole = await sift([]);
    assert.equal(await sift(cuts), whole);
    assert.doesNotMatch(whole, /^(remote: )?Counting objects: +50% \(1\/2\)\r?$/m);
    let at = 0;
    for (const byte of Buffer.from(whole, 'latin1'))
      at = bytes.indexOf(byte, at) + 1 || assert.fail('something was added');
  }),
);

const identity = fc.oneof(
  fc.constantFrom('A <a@b> 1 +0000', 'A <a@b', '<> 99999999999999999999 +9999', 'A <a> -1 -1400', 'A <a> x +0100'),
  oddBytes.map((bytes) => bytes.toString('latin1')),
);
const commit = fc
  .tuple(
    fc.constantFrom('', 'utf-8', 'latin1', 'utf-16le', 'no-such-thing', '\x00'),
    identity,
    identity,
    oddBytes,
    fc.constantFrom('', '\n'.repeat(200_000), ' \n'.repeat(100_000), 'x'.repeat(200_000)),
    fc.constantFrom('', 'end'),
  )
  .map(([encoding, author, committer, message, long, end]) =>
    Buffer.concat([
      Buffer.from(`tree ${'0'.repeat(40)}\nauthor ${author}\ncommitter ${committer}\n`, 'latin1'),
      Buffer.from(encoding === '' ? '\n' : `encoding ${encoding}\n\n`),
      message,
      Buffer.from(long + end),
    ]),
  );

/** Every commit can be read, in time that grows with its length alone, into texts and dates that can be stored. */
export const commits = pure(
  'commit-objects',
  100,
  fc.property(mutated(commit), (bytes) => {
    const start = processorTime();
    const { authoredDate, committedDate, ...texts } = readCommitObject(bytes);
    assert.ok(processorTime() - start < 2000, 'it takes too long');
    for (const date of [authoredDate, committedDate]) {
      assert.match(date, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
      assert.ok(!Number.isNaN(Date.parse(date)), date);
    }
    for (const text of Object.values(texts)) assert.ok(!text.includes('\0') && text.isWellFormed());
  }),
);

const expression = fc.oneof(
  fc
    .array(
      fc.constantFrom(
        'a',
        '.',
        '*',
        '+',
        '?',
        '(',
        ')',
        '|',
        '{2,9}',
        '{30}',
        '[a-z]',
        '\\pL',
        '\\Q',
        '\\E',
        '^',
        '$',
        '\\b',
      ),
      {
        maxLength: 30,
      },
    )
    .map((tokens) => tokens.join('')),
  fc.string({ unit: 'binary', maxLength: 40 }),
);

/** A rule that can be stored can be applied, to any commit, in bounded time. */
export const rules = pure(
  'rules',
  300,
  fc.property(
    fc.constantFrom(...subjects),
    fc.constantFrom(...operators),
    expression,
    oddBytes,
    fc.constantFrom('', 'a'.repeat(2000), 'ab '.repeat(700)),
    (subject, operator, value, bytes, long) => {
      if (value.trim() === '' || !fitsOperator(operator, value)) return;
      const text = bytes.toString() + long;
      const texts: Texts = {
        message: text,
        branches: JSON.stringify([text]),
        tags: '[]',
        authorName: text,
        authorEmail: text,
        committerEmail: text,
        ref: '0'.repeat(40),
        files: JSON.stringify([text, 'x']),
        event: 'push',
        targetBranch: text,
        fromFork: 'false',
      };
      const start = processorTime();
      assert.equal(evaluate({ suites: [{ id: '1', rules: [{ subject, operator, value }] }], texts }).length, 1);
      assert.ok(processorTime() - start < 5000, 'it takes too long');
    },
  ),
);
