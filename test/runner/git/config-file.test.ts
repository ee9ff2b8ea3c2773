import assert from 'node:assert/strict';
import test from 'node:test';
import { bytes } from '../../../src/shared/domain/bounds.ts';
import type { Content } from '../../support/repository.ts';
import { workplace } from './workplace.ts';

test('the file that a commit is built by is read from every commit but a fork’s', async (t) => {
  const { repository, fetch } = await workplace(t);
  const configFile = '.headrace.toml';
  const first = await repository.commit({ files: { [configFile]: 'name = "first"\n' } });
  assert.deepEqual((await fetch('main', { configFile })).config, { text: 'name = "first"\n' });
  assert.equal((await fetch('main')).config, undefined, 'nobody asked for it');
  const second = await repository.commit({ files: { [configFile]: 'name = "sécond"\n' } });
  assert.deepEqual((await fetch('main', { configFile, defaultHead: first })).config, { text: 'name = "sécond"\n' });
  // By its SHA, which the runner knows already, and again.
  assert.deepEqual((await fetch(second, { configFile, defaultHead: second })).config, { text: 'name = "sécond"\n' });
  const older = await fetch(first, { configFile, defaultHead: second });
  assert.deepEqual([older.config, older.defaultHead], [{ text: 'name = "first"\n' }, 'kept']);
  await repository.commit({ on: 'feature', after: second, files: { [configFile]: 'own = true\n' } });
  const elsewhere = await fetch('feature', { configFile, defaultHead: second });
  assert.deepEqual([elsewhere.config, elsewhere.defaultHead], [{ text: 'own = true\n' }, 'kept']);
  // No branch of the repository has ever had this one.
  const theirs = await repository.commit({ on: 'fork', after: second, files: { [configFile]: 'evil = true\n' } });
  await repository.git(['update-ref', 'refs/pull/7/head', theirs]);
  await repository.deleteBranch('fork');
  const pull = await fetch(theirs, { fetchRef: 'refs/pull/7/head', configFile, defaultHead: second });
  assert.equal(pull.config, undefined, 'it is from a fork');
});

test('what is no short file of text in the commit is a problem in words', async (t) => {
  const { repository, fetch } = await workplace(t);
  const first = await repository.commit();
  const fits = '#'.repeat(bytes.configFile);
  const files: Record<string, Content> = {
    'dir/a.toml': 'a = 1\n',
    sub: { link: 'dir' },
    'link.toml': { link: '/etc/passwd' },
    'module.toml': { submodule: first },
    'bytes.toml': Buffer.from([0xff, 0xfe, 0x41]),
    'nul.toml': 'a\0b',
    'fits.toml': fits,
    'over.toml': `${fits}#`,
    'large.toml': Buffer.alloc(100 * 1024 * 1024, '#'),
  };
  const sha = await repository.commit({ files });
  const read = async (configFile: string) => (await fetch(sha, { configFile })).config;
  assert.deepEqual(await read('dir/a.toml'), { text: 'a = 1\n' });
  assert.deepEqual(await read('fits.toml'), { text: fits });
  for (const path of ['.headrace.toml', 'sub/a.toml', '*.toml'])
    assert.deepEqual(await read(path), { isAbsent: true }, path);
  const problems: Record<string, RegExp> = {
    'link.toml': /^link\.toml is a link/,
    'module.toml': /^module\.toml is a submodule/,
    dir: /^dir is a folder/,
    'bytes.toml': /not UTF-8 text/,
    'nul.toml': /not UTF-8 text/,
    'over.toml': /more than 128 kB/,
    'large.toml': /more than 128 kB/,
  };
  for (const [path, words] of Object.entries(problems)) {
    const config = await read(path);
    assert.ok(config && 'problem' in config, path);
    assert.match(config.problem, words);
  }
});
