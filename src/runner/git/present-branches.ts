import { remoteHead } from './refs.ts';
import type { Session } from './session.ts';

/** So many names, each up to a length; the rest is counted. */
const mostNamed = 10;
const longestName = 100;

/** For a user who requested a missing branch: the default branch, then the most recently changed. */
export async function presentBranches(session: Session): Promise<string> {
  const args = ['for-each-ref', '--sort=-committerdate', '--format=%(objectname) %(refname)', 'refs/heads', remoteHead];
  const { status, stdout } = await session.git(args);
  if (status !== 0) return ''; // the missing branch must be reported even if this fails
  const refs = stdout
    .toString()
    .split('\n')
    .map((line) => [line.slice(line.indexOf(' ') + 1), line.slice(0, line.indexOf(' '))] as const);
  const head = refs.find(([name]) => name === remoteHead)?.[1];
  const branches = refs.flatMap(([name, tip]) =>
    name.startsWith('refs/heads/') ? [{ name: name.slice('refs/heads/'.length), isDefault: tip === head }] : [],
  );
  if (branches.length === 0) return ' It has no branches at all: nothing was pushed there yet.';
  const sorted = [...branches.filter(({ isDefault }) => isDefault), ...branches.filter(({ isDefault }) => !isDefault)];
  const named = sorted.slice(0, mostNamed).map(({ name }) => name.slice(0, longestName));
  const more = sorted.length > named.length ? `, and ${sorted.length - named.length} more` : '';
  return ` Its branches are ${named.join(', ')}${more}.`;
}
