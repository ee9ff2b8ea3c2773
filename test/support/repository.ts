import { run } from '../../src/shared/lib/processes.ts';

/** The content at a path of a commit; null removes it. */
export type Content =
  | string
  | Buffer
  | null
  | { executable: string }
  | { link: string }
  | { /** The SHA of another repository's commit. */ submodule: string };

export interface Person {
  name: string;
  email: string;
}

export interface NewCommit {
  /** The branch of the commit; created when it is missing. */
  on?: string;
  message?: string | Buffer;
  files?: Readonly<Record<string, Content>>;
  author?: Person;
  committer?: Person;
  /** Seconds since 1970 and offset, as git writes them: `1794706962 +0545`. */
  authoredAt?: string;
  committedAt?: string;
  /** The parent, when it is not the tip of the branch: the branch is then overwritten. `null` starts a new history. */
  after?: string | null;
  /** Further parents. */
  merging?: readonly string[];
  /** The encoding of message and names, when it is not UTF-8. */
  encoding?: string;
}

/** A bare repository that tests write to, with actions named as a user would. */
export interface Repository {
  folder: string;
  /** Commits and returns the SHA. */
  commit(commit?: NewCommit): Promise<string>;
  branch(name: string, at: string): Promise<void>;
  deleteBranch(name: string): Promise<void>;
  /** A lightweight tag, or an annotated one when it has a message. An existing tag is moved. */
  tag(name: string, at: string, message?: string): Promise<void>;
  /** Moves a branch to any commit, as a forced push does. */
  overwrite(branch: string, at: string): Promise<void>;
  /** The SHA of a branch, tag or expression. */
  sha(name: string): Promise<string>;
  git(args: readonly string[], input?: string | Buffer): Promise<string>;
}

const someone: Person = { name: 'Ada Author', email: 'ada@example.test' };

export async function createRepository(folder: string): Promise<Repository> {
  const env = {
    PATH: process.env['PATH'],
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_COMMITTER_NAME: someone.name,
    GIT_COMMITTER_EMAIL: someone.email,
  };
  const git = async (args: readonly string[], input: string | Buffer = ''): Promise<string> => {
    const finished = await run('git', args, { env, input, cwd: folder });
    if (finished.status !== 0) throw new Error(`git ${args.join(' ')}: ${finished.stderr.toString()}`);
    return finished.stdout.toString().trim();
  };
  const made = await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', folder], { env });
  if (made.status !== 0) throw new Error(made.stderr.toString());
  let clock = 1_750_000_000; // every commit is a minute younger than the one before

  return {
    folder,
    git,
    commit: async (commit = {}) => {
      clock += 60;
      const { on = 'main', after } = commit;
      const tip = await git(['for-each-ref', '--format=%(objectname)', `refs/heads/${on}`]);
      const parent = after === undefined ? tip : (after ?? '');
      return git(
        ['fast-import', '--quiet', '--force', '--date-format=raw-permissive'],
        importStream(commit, on, parent, clock),
      );
    },
    branch: async (name, at) => void (await git(['branch', name, at])),
    deleteBranch: async (name) => void (await git(['branch', '-D', name])),
    tag: async (name, at, message) =>
      void (await git(['tag', '--force', ...(message === undefined ? [] : ['-a', '-m', message]), name, at])),
    overwrite: async (branch, at) => void (await git(['update-ref', `refs/heads/${branch}`, at])),
    sha: (name) => git(['rev-parse', '--verify', name]),
  };
}

/** The format of git fast-import: one process for any commit, and every byte stays as it is. */
function importStream(commit: NewCommit, on: string, parent: string, clock: number): Buffer {
  const { message = 'Work', files, author = someone, committer = author, merging = [], encoding } = commit;
  const { authoredAt = `${clock} +0000`, committedAt = authoredAt } = commit;
  const bytes = encoding === undefined ? 'utf8' : 'latin1';
  const parts: (string | Buffer)[] = [];
  if (parent === '') parts.push(`reset refs/heads/${on}\n`);
  parts.push(`commit refs/heads/${on}\nmark :1\n`);
  parts.push(Buffer.from(`author ${author.name} <${author.email}> ${authoredAt}\n`, bytes));
  parts.push(Buffer.from(`committer ${committer.name} <${committer.email}> ${committedAt}\n`, bytes));
  if (encoding !== undefined) parts.push(`encoding ${encoding}\n`);
  parts.push(...data(message));
  if (parent !== '') parts.push(`from ${parent}\n`);
  for (const other of merging) parts.push(`merge ${other}\n`);
  for (const [path, content] of Object.entries(files ?? { [`file-${clock}`]: `${clock}\n` })) {
    parts.push(...change(path, content));
  }
  parts.push('\nget-mark :1\n');
  return Buffer.concat(parts.map((part) => Buffer.from(part)));
}

function change(path: string, content: Content): (string | Buffer)[] {
  const name = `"${path
    .replaceAll('\\', '\\\\')
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)}"`;
  if (content === null) return [`D ${name}\n`];
  if (typeof content === 'string' || Buffer.isBuffer(content)) return [`M 100644 inline ${name}\n`, ...data(content)];
  if ('executable' in content) return [`M 100755 inline ${name}\n`, ...data(content.executable)];
  if ('link' in content) return [`M 120000 inline ${name}\n`, ...data(content.link)];
  return [`M 160000 ${content.submodule} ${name}\n`];
}

function data(content: string | Buffer): (string | Buffer)[] {
  const bytes = Buffer.from(content);
  return [`data ${bytes.length}\n`, bytes, '\n'];
}
