import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Developer } from '../support/developer.ts';
import { describeServiceOnOne } from '../support/service.ts';

const folder = join(import.meta.dirname, '../../docs/recipes');
const pages = readdirSync(folder).filter((name) => name !== 'README.md');

/** What a suite needs beyond what every machine for the tests has. Builds see /usr, and no program in somebody's home. */
const programs: Record<string, string> = {
  node: 'npm',
  python: 'python3',
  go: 'go',
  rust: 'cargo',
  java: 'javac',
  c: 'make',
};

/** The files that a page shows: a line with a name in backquotes and a colon, then the file as a block. */
function filesOf(page: string): Map<string, string> {
  const blocks = readFileSync(join(folder, page), 'utf8').matchAll(/^`([^`\n]+)`:\n\n```\w+\n(.*?)^```$/gms);
  return new Map(Array.from(blocks, ([, name = '', text = '']) => [name, text]));
}

describeServiceOnOne('the recipes', (service) => {
  for (const page of pages) {
    const language = page.replace(/\.md$/, '');
    test(`${language}: the file is taken by a server, and its suite passes on the project of the page`, async (t) => {
      const files = filesOf(page);
      const [, remote = ''] = /^repository_url = "(.*)"$/m.exec(files.get('headrace.toml') ?? '') ?? [];
      const developer = await Developer.of(service, await service.user());
      developer.clone(remote);
      for (const [name, text] of files) {
        const file = join(developer.folder, name);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, text);
      }
      const applied = await developer.run(['apply', '-f', 'headrace.toml', '--create']);
      assert.equal(applied.status, 0, applied.err);
      const again = await developer.run(['apply', '-f', 'headrace.toml', '--check']);
      assert.equal(again.status, 0, again.out + again.err);

      const program = programs[language] ?? assert.fail(`say which program the recipe for ${language} needs`);
      if (!existsSync(`/usr/bin/${program}`)) {
        t.skip(
          `the file was applied, but the suite was not run: there is no /usr/bin/${program} here, so builds have none`,
        );
        return;
      }
      const ended = await developer.run(['exec', 'test', '--offline']);
      assert.equal(ended.status, 0, ended.out + ended.err);
    });
  }

  const examples = readFileSync(join(folder, '../coming-from.md'), 'utf8').matchAll(/^```toml\n(.*?)^```$/gms);
  for (const [at, [, text = '']] of Array.from(examples).entries()) {
    test(`example ${at + 1} of docs/coming-from.md is taken by a server`, async () => {
      const developer = await Developer.of(service, await service.user());
      writeFileSync(join(developer.folder, 'headrace.toml'), text);
      const applied = await developer.run(['apply', '-f', 'headrace.toml', '--create']);
      assert.equal(applied.status, 0, applied.err);
    });
  }
});
