import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { operatorProgram } from '../../src/cli/operator/catalog.ts';
import { developerProgram } from '../../src/cli/developer/catalog.ts';
import { leavesOf, commandLine, type Command } from '../../src/cli/developer/program.ts';
import { readConfig } from '../../src/shared/config.ts';
import { errorStatus } from '../../src/shared/errors.ts';
import { routes } from '../../src/server/resources/index.ts';
import { buildRequestStates, buildStates, commitStates, deployStates } from '../../src/shared/records/states.ts';

/** What pages name has to be there: files, headings, commands with their flags, settings, states and error codes. */
const root = join(import.meta.dirname, '../..');
const names = ['*.md', '{docs,src,deploy,bench,fuzz,test,scripts}/**/*.md'];
const pages = globSync(names, { cwd: root, exclude: (name) => name === 'node_modules' }).toSorted();
const read = (name: string): string => readFileSync(join(root, name), 'utf8');

/** Decisions and the changelog tell of their day: a command that they name may be gone. */
const current = pages.filter((name) => name !== 'CHANGELOG.md' && !name.startsWith('docs/decisions/'));

const fence = /^( *)```(\w*)\n(.*?)^\1```$/gms;
const prose = (text: string): string => text.replaceAll(fence, '');

/** As GitHub makes anchors of headings. */
function anchorsOf(text: string): Set<string> {
  const headings = Array.from(prose(text).matchAll(/^#{1,6} (.+)$/gm), ([, heading = '']) => heading);
  const slugs = headings.map((heading) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  );
  return new Set(
    slugs.map((slug, at) => {
      const earlier = slugs.slice(0, at).filter((one) => one === slug).length;
      return earlier === 0 ? slug : `${slug}-${earlier}`;
    }),
  );
}

function linksOf(text: string): string[] {
  const spoken = prose(text).replaceAll(/`[^`\n]*`/g, '');
  return Array.from(spoken.matchAll(/\]\(([^)\s]+)\)/g), ([, target = '']) => target);
}

const operator = operatorProgram({});
const developer = developerProgram();
const commands = [...leavesOf(operator), ...leavesOf(developer)];

/** Those before the first that is an argument or a flag. */
function leadingWords(tokens: readonly string[]): string[] {
  const end = tokens.findIndex((token) => !/^[a-z][a-z-]*$/.test(token));
  return tokens.slice(0, end === -1 ? tokens.length : end);
}

/** The words of a command without its arguments, which are in capitals. */
function namesOf(command: Command): string[] {
  return leadingWords(commandLine(command).split(' '));
}

/** Calls of the program in a page: code in a line that begins with it, and lines of shell blocks. */
function callsIn(text: string): string[] {
  const spans = Array.from(prose(text).matchAll(/`([^`\n]+)`/g), ([, code = '']) => code.replaceAll('\\|', '|'));
  const lines = Array.from(text.matchAll(fence)).flatMap(([, , language = '', block = '']) =>
    language === 'sh' ? block.replaceAll(/\\\n\s*/g, '').split('\n') : [],
  );
  const pieces = lines.flatMap((line) => line.replace(/(?:^|\s)#.*$/, '').split(/&&|;| -- |\||\$\(|<\(/));
  return [...spans, ...pieces].flatMap((line) => {
    const [, call] = /^\s*(?:sudo )?(?:[A-Z_]+=\S* )*(?:bin\/)?headrace(?:-server)? ([a-z-].*)$/.exec(line) ?? [];
    return call === undefined ? [] : [call];
  });
}

/** What is wrong with a call; undefined where nothing is. */
function mistakeIn(call: string): string | undefined {
  const tokens = call
    .replaceAll(/'[^']*'|"[^"]*"/g, 'TEXT')
    .split(/[\s[\]|…]+/)
    .filter((token) => token !== '' && token !== '...');
  const words = tokens[0] === 'help' ? tokens.slice(1) : tokens;
  if (['server', 'COMMAND', '--help'].includes(words[0] ?? 'COMMAND')) return undefined;
  const plain = leadingWords(words);
  const begins = (command: Command): boolean => {
    const own = namesOf(command).slice(0, plain.length);
    return own.length > 0 && own.every((word, at) => word === plain[at]);
  };
  const meant = commands.filter(begins);
  if (meant.length === 0) return 'there is no such command';
  const known = new Set(meant.flatMap(({ options }) => options.flatMap(({ short, long }) => [short, long])));
  const unknown = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.replace(/[=,.].*$/, ''));
  const wrong = unknown.find((flag) => !known.has(flag) && flag !== '--help' && flag !== '-h');
  return wrong === undefined ? undefined : `it has no ${wrong}`;
}

function isSetting(name: string): boolean {
  try {
    readConfig({ flags: { data_dir: '/nowhere' }, env: { [name]: '' } });
    return true; // one of a build or of the command line, which a server lets be
  } catch (error) {
    return !String(error).endsWith(' is not a setting');
  }
}

const sources = globSync('{src,scripts,test/support,deploy}/**/*.{ts,pl,sh}', { cwd: root }).map(read).join('\n');

describe('the pages', () => {
  test('link to what is there', () => {
    const broken = pages.flatMap((page) =>
      linksOf(read(page)).flatMap((target) => {
        if (/^[a-z]+:/.test(target)) return [];
        const [path = '', anchor] = target.split('#');
        const file = path === '' ? page : relative(root, join(root, dirname(page), path));
        if (!existsSync(join(root, file))) return [`${page}: ${target}`];
        return anchor === undefined || anchorsOf(read(file)).has(anchor) ? [] : [`${page}: ${target}`];
      }),
    );
    assert.deepEqual(broken, []);
  });

  test('name commands and flags that exist', () => {
    const calls = current.flatMap((page) => callsIn(read(page)).map((call) => ({ page, call })));
    assert.ok(calls.length > 100);
    const wrong = calls.flatMap(({ page, call }) => {
      const mistake = mistakeIn(call);
      return mistake === undefined ? [] : [`${page}: headrace ${call}: ${mistake}`];
    });
    assert.deepEqual(wrong, []);
  });

  test('name settings and variables that exist', () => {
    const wrong = current.flatMap((page) =>
      Array.from(read(page).matchAll(/\bHEADRACE_[A-Z_]*[A-Z]\b(?!\*)/g), ([name]) => name)
        .filter((name) => !isSetting(name) && !new RegExp(`\\b${name}\\b`).test(sources))
        .map((name) => `${page}: ${name}`),
    );
    assert.deepEqual(wrong, []);
  });

  test('call paths that exist', () => {
    const known = new Set(routes.map(({ path }) => path.replaceAll(/:\w+/g, 'ID')));
    const outside = /^\/(healthz|metrics|openapi\.json|hooks\/ID|oauth2\/\w+|ui\/.*)$/;
    const called = current.flatMap((page) =>
      Array.from(read(page).matchAll(/\$(?:url|URL)(\/[^\s"'`?]*)/g), ([, path = '']) => ({
        page,
        path: path.replaceAll(/\$\w+|\d{6,}…?|\b\d{3}…/g, 'ID').replace(/[).,;]+$/, ''),
      })),
    );
    assert.ok(called.length > 50);
    const wrong = called.filter(({ path }) => !known.has(path) && !outside.test(path));
    assert.deepEqual(wrong, []);
  });

  test('docs/settings.md has every setting, and no other', () => {
    const table = Array.from(
      read('docs/settings.md').matchAll(/^\| `(\w+)` +\| `HEADRACE_(\w+)`/gm),
      ([, inFile = '', inEnvironment = '']) => {
        assert.equal(inEnvironment, inFile.toUpperCase());
        return inFile;
      },
    );
    const { data_dir: _, ...config } = readConfig({ flags: { data_dir: '/nowhere' }, env: {} });
    assert.deepEqual(table.toSorted(), Object.keys(config).toSorted());
  });

  test('tell of every command', () => {
    const lacks = (page: string, program: Command): string[] => {
      const told = callsIn(read(page));
      const isTold = (name: string): boolean => told.some((call) => call === name || call.startsWith(`${name} `));
      return leavesOf(program)
        .map((command) => namesOf(command).join(' '))
        .filter((name) => !isTold(name));
    };
    assert.deepEqual(lacks('docs/administration.md', operator), []);
    assert.deepEqual(lacks('docs/command-line.md', developer), []);
  });

  test('docs/api.md has every error code with its status', () => {
    const told = Array.from(read('docs/api.md').matchAll(/^\| `(\w+)` +\| (\d{3}) /gm), ([, code = '', status]) => [
      code,
      Number(status),
    ]);
    assert.deepEqual(Object.fromEntries(told), errorStatus);
  });

  test('docs/concepts.md has every state', () => {
    const states = {
      'a build request': buildRequestStates,
      'a commit': commitStates,
      'a build': buildStates,
      'a deploy': deployStates,
    };
    for (const [what, all] of Object.entries(states)) {
      const [row = ''] = new RegExp(`^\\| ${what} +\\|.*$`, 'm').exec(read('docs/concepts.md')) ?? [];
      const told = Array.from(row.matchAll(/`(\w+)`/g), ([, state = '']) => state);
      assert.deepEqual(told.toSorted(), [...all].toSorted());
    }
  });

  test('docs/README.md leads to every page', () => {
    const reached = new Set(linksOf(read('docs/README.md')).map((target) => target.split('#')[0]));
    const missing = globSync('*.md', { cwd: join(root, 'docs') }).filter(
      (name) => name !== 'README.md' && !reached.has(name),
    );
    assert.deepEqual(missing, []);
    const recipes = globSync('*.md', { cwd: join(root, 'docs/recipes') }).filter((name) => name !== 'README.md');
    const listed = linksOf(read('docs/recipes/README.md'));
    assert.deepEqual(
      recipes.filter((name) => !listed.includes(name)),
      [],
    );
  });

  test('docs/decisions/README.md has every decision once', () => {
    const index = read('docs/decisions/README.md');
    const listed = Array.from(index.matchAll(/^- \[(\d{4})\]\((\1-[\w-]+\.md)\) \S/gm), ([, , name = '']) => name);
    const decisions = globSync('[0-9]*.md', { cwd: join(root, 'docs/decisions') });
    assert.deepEqual(listed.toSorted(), decisions.toSorted());
  });

  test('about the code name files that exist', () => {
    const about = pages.filter((name) => /^(ARCHITECTURE|CONTRIBUTING)\.md$|^src\//.test(name));
    const missing = about.flatMap((page) =>
      Array.from(prose(read(page)).matchAll(/`([\w./-]+\.(?:ts|pl|toml|sql|css))`/g), ([, name = '']) => name)
        .filter((name) => ![dirname(page), '.', 'src'].some((folder) => existsSync(join(root, folder, name))))
        .map((name) => `${page}: ${name}`),
    );
    assert.deepEqual(missing, []);
  });

  test('ARCHITECTURE.md counts the files of its flows', () => {
    const flows = read('ARCHITECTURE.md').matchAll(/^### .*: (\d+) files to read.*\n([^#]+)/gm);
    const counts = Array.from(flows, ([, told, text = '']) => [Number(told), text.match(/`[\w/-]+\.ts`/g)?.length]);
    assert.equal(counts.length, 5);
    for (const [told, counted] of counts) assert.equal(told, counted);
  });
});
