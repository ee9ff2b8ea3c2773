import { FetchError } from './failures.ts';
import { listRefs, refsIn } from './known-refs.ts';
import { quoted } from './phrases.ts';
import type { WantedRef } from './refs.ts';
import type { Session } from './session.ts';

export async function notFound(session: Session, wanted: WantedRef, url: string): Promise<FetchError> {
  if (wanted.by !== undefined) {
    return new FetchError(
      'ref_not_found',
      `The commit ${wanted.asked} is no longer in ${url}, and ${quoted(wanted.by)} does not contain it: ` +
        'it was overwritten or deleted since. The present commit has its own request, or is built when you request it.',
    );
  }
  const what = wanted.special !== undefined ? 'ref' : wanted.fullSha === undefined ? 'branch, tag or commit' : 'commit';
  return new FetchError(
    'ref_not_found',
    `There is no ${what} ${quoted(wanted.asked)} in ${url}. Check the spelling, and whether it was pushed.${await presentBranches(session)}`,
  );
}

/** At most this many names are listed, each up to a length. The rest are counted. */
const mostNamed = 10;
const longestName = 100;

/** For a user who requested a missing branch: the default branch, then the most recently changed. */
async function presentBranches(session: Session): Promise<string> {
  const listed = await session.git([...listRefs, '--sort=-committerdate', 'refs/heads']);
  if (listed.status !== 0) return ''; // the missing branch must be reported even if this fails
  const refs = refsIn(listed);
  if (refs.length === 0) return ' It has no branches at all: nothing was pushed there yet.';
  const sorted = [...refs.filter(({ isDefault }) => isDefault), ...refs.filter(({ isDefault }) => !isDefault)];
  const named = sorted.slice(0, mostNamed).map(({ name }) => name.slice('refs/heads/'.length).slice(0, longestName));
  const more = sorted.length > named.length ? `, and ${sorted.length - named.length} more` : '';
  return ` Its branches are ${named.join(', ')}${more}.`;
}
