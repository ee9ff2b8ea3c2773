import { constants, copyFile, lchown, link, mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { wholeOrCut } from './git.ts';
import { packsOf, whileSharing, type Mirror } from './mirror.ts';
import type { Session } from './session.ts';
import { mirrorOf, type GitDeps, type Source } from './sources.ts';

/** Makes the whole folder before git sees it. Without `refs`, it names no other repository. Returns the packs, which it shares with the mirror. */
export async function makeGitDir(
  deps: GitDeps,
  source: Source,
  tree: string,
  { sha, refs }: { sha: string; refs: string | undefined },
): Promise<string[]> {
  const files = {
    HEAD: `${sha}\n`,
    config: refs === undefined ? ownConfig : ownConfig + remoteConfig(source.address.url),
    ...(refs !== undefined && { 'packed-refs': refs }),
  };
  const gitDir = join(tree, '.git');
  const folders = ['', 'objects', 'objects/pack', 'objects/info', 'refs', 'refs/heads', 'refs/tags'];
  for (const folder of [tree, ...folders.map((name) => join(gitDir, name))]) await mkdir(folder);
  for (const [name, content] of Object.entries(files)) await writeFile(join(gitDir, name), content, 'latin1');
  const mirror = mirrorOf(deps, source);
  const packs = await whileSharing(mirror, source.signal, () => sharePacks(mirror, join(gitDir, 'objects', 'pack')));
  const { uid, gid } = deps.sessions.owner;
  const own = [tree, ...[...folders, ...Object.keys(files)].map((name) => join(gitDir, name))];
  for (const path of own) await lchown(path, uid, gid);
  return packs;
}

/** An overlay or a copy changes inode numbers and change times. git must not read every file again because of that. */
const ownConfig = `[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tcheckStat = minimal
\ttrustctime = false
`;

function remoteConfig(url: string): string {
  return `[remote "origin"]
\turl = "${Buffer.from(url.replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"
\tfetch = +refs/heads/*:refs/remotes/origin/*
`;
}

/** Links cannot cross a mount, so this does not run in a session. The mirror is locked meanwhile. */
async function sharePacks(mirror: Mirror, to: string): Promise<string[]> {
  const shared: string[] = [];
  for (const pack of await packsOf(mirror)) {
    const copy = join(to, basename(pack));
    try {
      await copyFile(pack, copy, constants.COPYFILE_FICLONE_FORCE);
    } catch {
      await link(pack, copy).catch(() => copyFile(pack, copy)); // a link to another file system is impossible
    }
    shared.push(copy);
  }
  return shared;
}

const mostOfRefs = 32 * 1024 * 1024;

/**
 * Names may contain any bytes. latin1 preserves them. A fork gets the tags in its history, without their messages:
 * those are objects that the commit does not reach.
 */
export async function packedRefs(
  session: Session,
  { isFork, narrator }: Source,
  shas: readonly string[],
): Promise<string> {
  const format = '--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)';
  const which = isFork ? [...shas.map((sha) => `--merged=${sha}`), 'refs/tags'] : ['refs/heads', 'refs/tags'];
  const listed = await session.git(['for-each-ref', format, ...which], { maxOutput: mostOfRefs });
  if (listed.truncated)
    narrator.line('The repository has more branches and tags than a work tree gets. Some are skipped.');
  const lines = wholeOrCut('listing refs', listed).stdout.toString('latin1').split('\n').slice(0, -1);
  const refs = lines.map((line) => {
    const [type, object = '', peeledType, peeled = '', name = ''] = line.split(' ');
    const here = name.replace(/^refs\/heads\//, 'refs/remotes/origin/');
    if (!isFork) return `${object} ${here}\n${peeled === '' ? '' : `^${peeled}\n`}`;
    if (type === 'commit') return `${object} ${here}\n`;
    return peeledType === 'commit' ? `${peeled} ${here}\n` : '';
  });
  return `# pack-refs with: peeled fully-peeled \n${refs.join('')}`;
}
