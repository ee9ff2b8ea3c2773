import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { before, test } from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Installation } from '../support/installation.ts';
import { lacks } from '../support/machine.ts';

const packed = readFileSync(join(import.meta.dirname, '../fixtures/workflows/npm.json.br'));
const corpus = JSON.parse(String(brotliDecompressSync(packed))) as { package: string; path: string; text: string }[];

/** Of the real files, some that need no network: what they install is nothing. */
const packages = ['0x', 'atomic-sleep', 'bintrees', 'close-with-grace', 'fast-redact'];
const scripts = { test: 'node test.js', ci: 'node test.js', lint: 'true' };
const project_ = {
  'package.json': `${JSON.stringify({ name: 'app', version: '1.0.0', private: true, scripts })}\n`,
  'test.js': "console.log('the level rises');\n",
};

onOneDatabase((database) => {
  let installation: Installation;
  before(async () => {
    installation = await startInstallation(database);
  });

  for (const name of packages)
    test(`the workflow of ${name} is imported, checked, and its builds pass`, { skip: lacks('npm') }, async () => {
      const { path, text } = corpus.find((one) => one.package === name) ?? assert.fail(name);
      const developer = new Developer({});
      mkdirSync(dirname(join(developer.folder, path)), { recursive: true });
      writeFileSync(join(developer.folder, path), text);
      const imported = await developer.run(['import']);
      assert.match(imported.err, /^(?:.*\n)*(\d+) of \1 carried over\n$/);
      assert.equal((await developer.run(['check'])).status, 0);
      // No registry has Node here, so the machine's stands for the image.
      const made = readFileSync(join(developer.folder, '.headrace.toml'), 'utf8').replaceAll(/^image = .*\n/gm, '');
      const project = await installation.project(name);
      await project.api().put(project.path, { config_file: '.headrace.toml' });
      await project.repository.commit({ files: { ...project_, '.headrace.toml': made } });
      const request = await project.build('main', 300_000);
      const [commit] = await project.commits();
      const builds = await project.builds(commit);
      const logs = await Promise.all(builds.map((build) => project.log(build)));
      assert.equal(request.build_state, 'passed', `${await project.fetchLog(request)}\n${logs.join('\n')}`);
      assert.ok(builds.length > 0);
      for (const log of logs) assert.match(log, /^the level rises$/m);
    });
});
