import type { Repository } from '../../support/repository.ts';

/** Objects that no git makes, made by hand. */
export interface Entry {
  mode: string;
  name: string;
  sha: string;
}

/** Just these entries, in this order, whatever a tree should be. */
export async function rawTree(repository: Repository, entries: readonly Entry[]): Promise<string> {
  const bytes = entries.flatMap(({ mode, name, sha }) => [Buffer.from(`${mode} ${name}\0`), Buffer.from(sha, 'hex')]);
  return repository.git(['hash-object', '-t', 'tree', '-w', '--literally', '--stdin'], Buffer.concat(bytes));
}

export async function blob(repository: Repository, content: string): Promise<string> {
  return repository.git(['hash-object', '-w', '--stdin'], content);
}

export async function rawCommit(repository: Repository, tree: string, on = 'main'): Promise<string> {
  const who = 'A <a@example.test> 1750000000 +0000';
  const text = `tree ${tree}\nauthor ${who}\ncommitter ${who}\n\nMade by hand\n`;
  const sha = await repository.git(['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'], text);
  await repository.overwrite(on, sha);
  return sha;
}

/** A tree of so many levels, each of which holds the next one so many times: small to fetch, and endless to look at. */
export async function bomb(repository: Repository, levels: number, width: number, leaf: string): Promise<string> {
  let entry = { mode: '100644', sha: await blob(repository, leaf) };
  for (let level = 0; level < levels; level += 1) {
    const names = Array.from({ length: width }, (_, at) => String.fromCharCode(97 + at));
    const tree = await rawTree(
      repository,
      names.map((name) => ({ ...entry, name })),
    );
    entry = { mode: '40000', sha: tree };
  }
  return rawCommit(repository, entry.sha);
}

/**
 * A repository whose submodule `a` would be followed by another at `a/b/c`: the tree has `a` twice, as a submodule and as
 * a directory. What `a` then holds is up to the repository `a`.
 */
export async function twoFaced(repository: Repository, submodule: { url: string; sha: string }): Promise<string> {
  const modules = ['a', 'a/b/c'].map((path) => `[submodule "${path}"]\n\tpath = ${path}\n\turl = ${submodule.url}\n`);
  const gitmodules = await blob(repository, modules.join(''));
  const inner = await rawTree(repository, [{ mode: '160000', name: 'c', sha: submodule.sha }]);
  const middle = await rawTree(repository, [{ mode: '40000', name: 'b', sha: inner }]);
  const tree = await rawTree(repository, [
    { mode: '100644', name: '.gitmodules', sha: gitmodules },
    { mode: '160000', name: 'a', sha: submodule.sha },
    { mode: '40000', name: 'a', sha: middle },
  ]);
  return rawCommit(repository, tree);
}
