import {
  headBranchIn,
  isNoCommit,
  movedRef,
  numberIn,
  quoted,
  refIn,
  shaIn,
  unlessSkipped,
  type Change,
  type Facts,
} from './facts.ts';
import { at, firstText, listOf, textOf, type Json } from './json.ts';
import { areSame, commentFacts, repositoryNames, completeFacts, type Reader } from './payload-readers.ts';

/** The names in `X-Gitlab-Event`. A merge request sends `update` for every change. With `oldrev` it has new commits. */
export const readGitlab: Reader = (event, payload) => {
  const action = textOf(at(payload, 'object_attributes', 'action'));
  const facts = {
    event,
    action,
    sender: firstText(at(payload, 'user_username'), at(payload, 'user', 'username'), at(payload, 'user_name')),
    repository: repositoryNames(at(payload, 'project'), at(payload, 'repository')),
  };
  if (event === 'Push Hook' || event === 'Tag Push Hook')
    return completeFacts({ ...facts, changes: [pushOf(payload)] });
  if (event === 'Note Hook') return noteOf(facts, payload);
  if (event !== 'Merge Request Hook') {
    return completeFacts({ ...facts, idle: `The event ${quoted(event)} starts no build.` });
  }
  const hasCommits = typeof at(payload, 'object_attributes', 'oldrev') === 'string';
  if (action === 'update' && !hasCommits) {
    return completeFacts({ ...facts, idle: 'The action “update” of a merge request brings no new commits.' });
  }
  if (!['open', 'reopen', 'update'].includes(action)) {
    return completeFacts({ ...facts, idle: `The action ${quoted(action)} of a merge request starts no build.` });
  }
  return completeFacts({ ...facts, changes: [mergeRequestOf(payload)] });
};

/** Older versions do not report the action. Their notes have the same times if they are new. */
function noteOf(facts: Partial<Facts>, payload: Json): Facts {
  const note = at(payload, 'object_attributes');
  const isNew = facts.action === '' ? at(note, 'created_at') === at(note, 'updated_at') : facts.action === 'create';
  if (!isNew || at(note, 'system') === true)
    return completeFacts({ ...facts, idle: 'Only a new comment by a user can be a command.' });
  if (at(note, 'noteable_type') !== 'MergeRequest')
    return completeFacts({ ...facts, idle: 'The comment is not on a merge request.' });
  const author = { id: at(note, 'author_id'), login: at(payload, 'user', 'username') };
  const pullRequest = at(payload, 'merge_request', 'iid');
  return commentFacts(facts, { id: at(note, 'id'), pullRequest, text: at(note, 'note'), author });
}

function pushOf(payload: Json): Change {
  const ref = refIn(at(payload, 'ref'), 'ref');
  const after = at(payload, 'after');
  if (isNoCommit(after)) return movedRef(ref, undefined, '');
  // For an annotated tag `after` is the tag object.
  const checkout = at(payload, 'checkout_sha');
  const sha = typeof checkout === 'string' ? shaIn(checkout, 'checkout_sha') : shaIn(after, 'after');
  const head = listOf(at(payload, 'commits')).find((commit) => textOf(at(commit, 'id')).toLowerCase() === sha);
  return movedRef(ref, sha, textOf(at(head, 'message')), at(payload, 'before'));
}

function mergeRequestOf(payload: Json): Change {
  const request = at(payload, 'object_attributes');
  const number = numberIn(at(request, 'iid'), 'object_attributes[iid]');
  const place = (side: string): Json => ({ ...(at(request, side) as object), id: at(request, `${side}_project_id`) });
  const fromFork = !areSame(place('source'), place('target'));
  const change: Change = {
    event: 'pull_request',
    ref: `refs/merge-requests/${number}/head`,
    sha: shaIn(at(request, 'last_commit', 'id'), 'object_attributes[last_commit][id]'),
    before: '',
    targetBranch: refIn(at(request, 'target_branch'), 'object_attributes[target_branch]'),
    pullRequest: number,
    fromFork,
    headBranch: headBranchIn(at(request, 'source_branch'), { fromFork }),
  };
  return unlessSkipped(change, textOf(at(request, 'last_commit', 'message')));
}
