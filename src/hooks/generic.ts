import { isNoCommit, movedRef, refIn, shaIn, type Change } from './facts.ts';
import { at, firstText, type Json } from './json.ts';
import { tell, type Reader } from './reading.ts';

/** A script: it says which ref, and perhaps which commit of it. Whoever knows the secret speaks for the project. */
export const readGeneric: Reader = (_, payload) => {
  const change = changeOf(payload);
  return tell({ event: change.event, sender: firstText(at(payload, 'sender')), changes: [change] });
};

function changeOf(payload: Json): Change {
  const named = refIn(at(payload, 'ref'), 'ref');
  const sent = at(payload, 'sha');
  const sha = sent === undefined || sent === null || sent === '' ? undefined : shaIn(sent, 'sha');
  // What git tells its own hooks of a branch that was deleted.
  if (sha !== undefined && isNoCommit(sha)) {
    return movedRef(named.startsWith('refs/') ? named : `refs/heads/${named}`, undefined, '');
  }
  if (!named.startsWith('refs/')) return { ...movedRef(`refs/heads/${named}`, sha ?? '', ''), ref: refOf(named, sha) };
  if (/^refs\/(heads|tags)\//.test(named)) return movedRef(named, sha ?? '', '');
  // Neither a branch nor a tag: what strangers may have put there.
  const [, number] = /^refs\/(?:pull|merge-requests|pull-requests)\/([1-9]\d{0,14})\/\w+$/.exec(named) ?? [];
  return {
    event: number === undefined ? 'push' : 'pull_request',
    ref: named,
    sha: sha ?? '',
    targetBranch: '',
    pullRequest: number === undefined ? null : Number(number),
    fromFork: true,
  };
}

/** A bare name is a branch; by itself it may be a tag as well, as everywhere. */
function refOf(name: string, sha: string | undefined): string {
  return sha === undefined ? name : `refs/heads/${name}`;
}
