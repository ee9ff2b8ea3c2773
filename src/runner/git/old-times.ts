import { GitError } from './git.ts';
import type { Session } from './session.ts';

/** 2 January 1980 in UTC, for all files of work trees: before any file of a build. Zip knows no earlier year. */
export const oldTime = 315_619_200;

/** git must note the new times: otherwise each `git status` would read all files again. */
export async function setOldTimes(
  { directory, run, gitInTree }: Session,
  settings: readonly string[] = [],
): Promise<void> {
  const age = `cd "$1" && find . -name .git -prune -o -exec touch -h -c -d @${oldTime} {} +`;
  const aged = await run(['sh', '-c', age, 'sh', directory]);
  if (aged.status !== 0) throw new GitError('setting the times of files', aged);
  await gitInTree(['update-index', '-q', '--refresh'], { settings });
}
