import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { run } from '../src/shared/lib/processes.ts';
import { readCommitObject } from '../src/runner/git/commit-object.ts';
import { damage, damaged, oddBytes, type Change } from './mutations.ts';
import { anyProperty, type Target } from './target.ts';

/**
 * Repositories as no git would make them. A server that means harm can send any bytes as a tree or a commit: names that
 * lead out or are git's own, the same name twice, modes that mean nothing, objects that end too early.
 */
export interface OddEntry {
  mode: string;
  name: Buffer;
  /** What the entry names: the content of a file, the target of a link, or a directory. */
  content: Buffer | OddEntry[];
  /** Names an object that is not there. */
  isMissing: boolean;
}

export interface OddRepository {
  entries: OddEntry[];
  /** The commit, but for the line that names its tree. */
  commit: Buffer;
  /** What happens to the bytes of the tree before they are stored. */
  changes: Change[];
}

const gitNames = ['.git', '.GIT', '.Git ', 'git~1', '.git\u200c', '.gitmodules', '.gitattributes', '.gitignore'];
const oddNames = ['..', '.', '', '/', 'a/b', '../outside', '-option', 'con', 'a\nb', '\x1b[2J', 'x'.repeat(5000)];
const names = ['a', 'b', 'a.txt', ...gitNames, ...oddNames];
const modes = ['100644', '100755', '120000', '40000', '040000', '160000', '100664', '0', '777777', '', 'x', '120777'];
const targets = ['', 'hello\n', '/etc/passwd', '../../outside', '.git/hooks/post-checkout', 'a'];
const contents = [
  ...targets,
  '[submodule "x"]\n\tpath = ../x\n\turl = -oProxyCommand=touch\n',
  '[submodule "../../x"]\n\tpath = a\n\turl = ext::sh -c x\n\tupdate = !touch x\n',
  '* filter=x diff=x merge=x working-tree-encoding=utf-16\n',
];

const { tree } = fc.letrec<{ tree: OddEntry[]; entry: OddEntry }>((tie) => ({
  tree: fc.array(tie('entry'), { maxLength: 6 }),
  entry: fc.record({
    mode: fc.constantFrom(...modes),
    name: fc.oneof(
      fc.constantFrom(...names).map((name) => Buffer.from(name)),
      oddBytes,
    ),
    content: fc.oneof(
      { maxDepth: 3 },
      fc.constantFrom(...contents).map((text) => Buffer.from(text)),
      tie('tree'),
    ),
    isMissing: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  }),
}));

const header = fc.constantFrom(
  'author A <a@b> 1 +0000',
  'author A <a@b> 99999999999999999999 +9999',
  'author',
  'committer A <a@b> 1 +0000',
  `parent ${'1'.repeat(40)}`,
  'parent x',
  'encoding utf-16le',
  'gpgsig -----BEGIN\n more\n -----END',
  'mergetag object x',
  'odd',
  '',
);

export const oddRepository: fc.Arbitrary<OddRepository> = fc.record({
  entries: tree,
  commit: fc
    .tuple(fc.array(header, { maxLength: 5 }), oddBytes)
    .map(([lines, message]) => Buffer.concat([Buffer.from(`${lines.join('\n')}\n\n`), message])),
  changes: fc.oneof({ weight: 3, arbitrary: fc.constant<Change[]>([]) }, { weight: 1, arbitrary: damage }),
});

const nowhere = Buffer.alloc(20, 0x11);

/** Stores all of it in a bare repository, as it stands, and answers the commit. */
export async function store(gitDir: string, { entries, commit, changes }: OddRepository): Promise<string> {
  const tree = await storeObject(gitDir, 'tree', damaged(await treeOf(gitDir, entries), changes));
  return storeObject(gitDir, 'commit', Buffer.concat([Buffer.from(`tree ${tree}\n`), commit]));
}

async function treeOf(gitDir: string, entries: readonly OddEntry[]): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (const { mode, name, content, isMissing } of entries) {
    const id = isMissing ? nowhere : await entryOf(gitDir, content);
    parts.push(Buffer.from(`${mode} `), name, Buffer.from([0]), id);
  }
  return Buffer.concat(parts);
}

async function entryOf(gitDir: string, content: OddEntry['content']): Promise<Buffer> {
  const isTree = Array.isArray(content);
  const bytes = isTree ? await treeOf(gitDir, content) : content;
  return Buffer.from(await storeObject(gitDir, isTree ? 'tree' : 'blob', bytes), 'hex');
}

async function storeObject(gitDir: string, type: 'blob' | 'tree' | 'commit', content: Buffer): Promise<string> {
  const args = ['--git-dir', gitDir, 'hash-object', '-t', type, '--literally', '-w', '--stdin'];
  const stored = await run('git', args, { input: content });
  if (stored.status !== 0) throw new Error(`git hash-object: ${stored.stderr.toString()}`);
  return stored.stdout.toString().trim();
}

/** What is stored is found again byte by byte, and its commit can be read: the ground that others stand on. */
export const gitObjects: Target = {
  name: 'git-objects',
  runs: 4,
  async open() {
    const gitDir = mkdtempSync(join(tmpdir(), 'headrace-fuzz-'));
    await run('git', ['init', '--quiet', '--bare', gitDir]);
    const property = fc.asyncProperty(oddRepository, async (repository) => {
      const id = await store(gitDir, repository);
      const { stdout } = await run('git', ['--git-dir', gitDir, 'cat-file', 'commit', id]);
      assert.ok(stdout.subarray(-repository.commit.length).equals(repository.commit));
      readCommitObject(stdout);
    });
    return { property: anyProperty(property), close: () => rmSync(gitDir, { recursive: true }) };
  },
};
