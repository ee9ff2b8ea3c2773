import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { readEnvironmentFile } from '../../../src/shared/domain/environment-file.ts';
import { temporaryFolder } from '../../support/databases.ts';

test('a file of variables is read line by line, and a mistake is told with its line and without its value', (t) => {
  const folder = temporaryFolder();
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, 'build.env');
  const read = (content: string | Buffer): Record<string, string> => {
    writeFileSync(file, content);
    return readEnvironmentFile(file);
  };
  const content =
    '# a proxy\n\nHTTPS_PROXY=http://proxy:3128\r\nQUOTED="a $HOME"\nA=1\nEMPTY=\nA= 2 = # b\nPATH=/opt/bin:/bin';
  assert.deepEqual(read(content), {
    HTTPS_PROXY: 'http://proxy:3128',
    QUOTED: '"a $HOME"',
    A: ' 2 = # b',
    EMPTY: '',
    PATH: '/opt/bin:/bin',
  });
  const wrong: [string, RegExp][] = [
    ['A=1\nexport B=HUSH', /line 2: it is not NAME=value$/],
    ['HUSH', /line 1: it is not NAME=value$/],
    ['A B=HUSH', /not NAME=value/],
    ['=HUSH', /not NAME=value/],
    ['HOME=HUSH', /line 1: HOME is set for each build/],
    ['CI=HUSH', /CI is set/],
    ['\nHEADRACE_BUILD_ID=HUSH', /line 2: HEADRACE_BUILD_ID is set/],
    ['HEADRACE=HUSH', /HEADRACE is set/],
    ['A=HUSH\0', /the value of A has a NUL byte/],
    [`A=${'HUSH'.repeat(20_000)}`, /it has more than 65536 bytes/],
  ];
  for (const [text, words] of wrong)
    assert.throws(() => read(text), (error: Error) => words.test(error.message) && !error.message.includes('HUSH'), text.slice(0, 40)); // oxfmt-ignore
  assert.throws(() => readEnvironmentFile(join(folder, 'gone')), /gone: it cannot be read: ENOENT/);
  mkdirSync(join(folder, 'folder'));
  assert.throws(() => readEnvironmentFile(join(folder, 'folder')), /folder: it is not a file/);
});
