import assert from 'node:assert/strict';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';

const project = join(import.meta.dirname, '../../..');

describe('the bundle that the program runs from', () => {
  const root = mkdtempSync(join(tmpdir(), 'headrace-bundle-'));
  after(() => rmSync(root, { recursive: true, force: true }));
  for (const name of ['bin', 'src', 'scripts', 'package.json', 'package-lock.json'])
    cpSync(join(project, name), join(root, name), { recursive: true });
  symlinkSync(join(project, 'node_modules'), join(root, 'node_modules'));
  const bundles = join(root, 'dist/program');

  async function help(): Promise<string> {
    const env = { ...process.env, NODE_COMPILE_CACHE: '' };
    const closed = ['-c', 'umask 077; exec "$0" help', join(root, 'bin/headrace')];
    const { status, stdout, stderr } = await run('/bin/sh', closed, { env });
    assert.equal(status, 0, stderr.toString());
    return stdout.toString();
  }
  const made = (): string[] => readdirSync(bundles).filter((name) => name !== 'current');

  function say(text: string): void {
    const file = join(root, 'src/cli/developer/catalog.ts');
    const source = readFileSync(join(project, 'src/cli/developer/catalog.ts'), 'utf8');
    assert.ok(source.includes('Sign in to a server'));
    writeFileSync(file, source.replaceAll('Sign in to a server', text));
  }

  test('is made by the first start, once by several at a time, and then used', async () => {
    const answers = await Promise.all([help(), help(), help()]);
    for (const answer of answers) assert.match(answer, /Sign in to a server/);
    assert.equal(made().length, 1);
    const [first = ''] = made();
    for (const name of ['', 'main.js'])
      assert.ok(statSync(join(bundles, first, name)).mode & 0o004, 'who may read the sources may read it');
    await help();
    assert.deepEqual(made(), [first]);
  });

  test('has a byte for each letter of what servers and runners load: with one other letter in it Node would take two', () => {
    const folder = join(bundles, 'current');
    const loaded = readdirSync(folder).filter((name) => /^(serve|runner)-.*\.js$/.test(name));
    assert.equal(loaded.length, 2);
    for (const name of loaded) {
      const odd = readFileSync(join(folder, name), 'utf8').match(/^.*[^\0-\x7f].*$/m);
      assert.equal(odd, null, `in templates of HTML, write ${odd?.[0]} with entities`);
    }
  });

  test('is made anew when a source has changed, and the one before stays for those who run it', async () => {
    const [first = ''] = made();
    for (const text of ['Say who you are', 'Say who you are again']) {
      say(text);
      assert.ok((await help()).includes(text));
    }
    assert.equal(made().length, 2);
    assert.ok(!made().includes(first));
  });

  test('is done without where it cannot be made', async () => {
    rmSync(join(root, 'dist'), { recursive: true });
    writeFileSync(join(root, 'dist'), '');
    say('From the sources');
    assert.match(await help(), /From the sources/);
  });

  test('of an installed package is used as it is', async () => {
    rmSync(join(root, 'dist'), { recursive: true });
    say('As it was packaged');
    await help();
    writeFileSync(join(bundles, 'current/packaged'), '');
    say('Edited later');
    assert.match(await help(), /As it was packaged/);
    assert.equal(made().length, 1);
    mkdirSync(join(bundles, 'new.leftover'), { recursive: true });
    rmSync(join(bundles, 'current/packaged'));
    assert.match(await help(), /Edited later/);
    assert.ok(!made().includes('new.leftover'), 'what a killed start left is removed');
  });
});
