import { isNoCommit, movedRef, refIn, shaIn, type Change } from './facts.ts';
import { at, firstText, type Json } from './json.ts';
import { completeFacts, type Reader } from './payload-readers.ts';

/** For scripts. A sender that knows the secret acts for the project. */
export const readGeneric: Reader = (_, payload) => {
  const change = changeOf(payload);
  return completeFacts({ event: change.event, sender: firstText(at(payload, 'sender')), changes: [change] });
};

function changeOf(payload: Json): Change {
  const named = refIn(at(payload, 'ref'), 'ref');
  const sent = at(payload, 'sha');
  const sha = sent === undefined || sent === null || sent === '' ? undefined : shaIn(sent, 'sha');
  // git passes this SHA to its own hooks for a deleted branch.
  if (sha !== undefined && isNoCommit(sha)) {
    return movedRef(named.startsWith('refs/') ? named : `refs/heads/${named}`, undefined, '');
  }
  if (!named.startsWith('refs/')) return { ...movedRef(`refs/heads/${named}`, sha ?? '', ''), ref: refOf(named, sha) };
  if (/^refs\/(heads|tags)\//.test(named)) return movedRef(named, sha ?? '', '');
  // The ref is no branch and no tag, so outsiders may have put the commit there.
  const [, number] = /^refs\/(?:pull|merge-requests|pull-requests)\/([1-9]\d{0,14})\/\w+$/.exec(named) ?? [];
  return {
    event: number === undefined ? 'push' : 'pull_request',
    ref: named,
    sha: sha ?? '',
    before: '',
    targetBranch: '',
    pullRequest: number === undefined ? null : Number(number),
    fromFork: true,
    headBranch: '',
  };
}

/** A bare name with a SHA is a branch. Without a SHA it may also be a tag, as in other requests. */
function refOf(name: string, sha: string | undefined): string {
  return sha === undefined ? name : `refs/heads/${name}`;
}
