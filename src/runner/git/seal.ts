import { join } from 'node:path';
import { expectSuccess, GitError } from './git.ts';
import { oldTime } from './old-times.ts';
import type { Session } from './session.ts';

/*
 * A sealed work tree shows nothing of the repository but the files of its commit. Its `.git` has one commit without
 * parents, whose SHA follows from the files, and no ref, remote or object besides.
 *
 * A submodule keeps its own commit, which the files name, so `git status` is clean. It counts as the first one.
 */

const who = `Headrace <headrace@localhost> ${oldTime} +0000`;
const commitText = (tree: string): string => `tree ${tree}\nauthor ${who}\ncommitter ${who}\n\nFiles of a build\n`;

const writeLine = 'printf "%s\\n" "$1" >"$2"';
/** Packs what HEAD reaches, which is one commit, and removes the other packs. Existing deltas are reused. */
const repack = ['repack', '-a', '-d', '-n', '--quiet', '--window=0'];
const quickly = ['-c', 'pack.compression=1'];
const removeLoose = 'rm -rf -- "$1"/??';

/** Returns the commit at HEAD. `repository` is the session on the tree's `.git`. */
export async function seal(
  session: Session,
  repository: Session,
  { sha, isSubmodule }: { sha: string; isSubmodule: boolean },
): Promise<string> {
  const gitDir = join(session.directory, '.git');
  const run = async (what: string, command: readonly string[]): Promise<void> =>
    void expectSuccess(what, await session.run(command));
  const head = isSubmodule ? sha : await ownCommit(repository, sha);
  await run('sealing', ['sh', '-c', writeLine, 'sh', head, join(gitDir, isSubmodule ? 'shallow' : 'HEAD')]);
  expectSuccess('packing the files', await session.gitInTree(repack, { settings: quickly }));
  await run('removing loose objects', ['sh', '-c', removeLoose, 'sh', join(gitDir, 'objects')]);
  return head;
}

async function ownCommit(repository: Session, sha: string): Promise<string> {
  const found = await repository.git(['rev-parse', '--verify', `${sha}^{tree}`]);
  const [tree] = /^[0-9a-f]{40,64}(?=\n$)/.exec(expectSuccess('looking for a tree', found).stdout.toString()) ?? [];
  if (tree === undefined) throw new GitError('looking for a tree', found);
  const written = await repository.git(['hash-object', '-t', 'commit', '-w', '--stdin'], { input: commitText(tree) });
  return expectSuccess('writing a commit', written).stdout.toString().trim();
}
