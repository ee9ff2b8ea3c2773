import {
  headBranchIn,
  ignoring,
  isNoCommit,
  movedRef,
  numberIn,
  PayloadError,
  quoted,
  refIn,
  shaIn,
  type Change,
  type Facts,
} from './facts.ts';
import { at, firstText, listOf, textOf, type Json } from './json.ts';
import { areSame, commentFacts, repositoryNames, completeFacts, type Reader } from './payload-readers.ts';
import { most } from '../../shared/domain/bounds.ts';

/** Bitbucket Cloud, and Data Center, whose payloads have other field names. */
export const readBitbucket: Reader = (event, payload) => {
  const actor = at(payload, 'actor');
  const facts = {
    event,
    action: event.split(':').slice(1).join(':'),
    sender: firstText(at(actor, 'nickname'), at(actor, 'username'), at(actor, 'name'), at(actor, 'display_name')),
    repository: repositoryOf(payload),
  };
  if (event === 'diagnostics:ping') return completeFacts({ ...facts, idle: 'A ping: the hook is set up.' });
  if (event === 'repo:push') return completeFacts({ ...facts, ...several(at(payload, 'push', 'changes'), cloudPush) });
  if (event === 'repo:refs_changed') {
    const messages = centerMessages(payload);
    return completeFacts({ ...facts, ...several(at(payload, 'changes'), (change) => centerPush(change, messages)) });
  }
  const comment = at(payload, 'comment');
  if (event === 'pullrequest:comment_created') {
    const author = { id: at(comment, 'user', 'uuid'), login: at(comment, 'user', 'nickname') };
    const pullRequest = at(payload, 'pullrequest', 'id');
    return commentFacts(facts, { id: at(comment, 'id'), pullRequest, text: at(comment, 'content', 'raw'), author });
  }
  if (event === 'pr:comment:added') {
    const author = { id: at(comment, 'author', 'id'), login: at(comment, 'author', 'name') };
    const pullRequest = at(payload, 'pullRequest', 'id');
    return commentFacts(facts, { id: at(comment, 'id'), pullRequest, text: at(comment, 'text'), author });
  }
  if (event === 'pullrequest:created' || event === 'pullrequest:updated') {
    return completeFacts({ ...facts, changes: [cloudPullRequest(payload)] });
  }
  if (['pr:opened', 'pr:from_ref_updated', 'pr:reopened'].includes(event)) {
    return completeFacts({ ...facts, changes: [centerPullRequest(payload)] });
  }
  return completeFacts({ ...facts, idle: `The event ${quoted(event)} starts no build.` });
};

function repositoryOf(payload: Json) {
  const ofPull = at(payload, 'pullRequest', 'toRef', 'repository');
  return repositoryNames(at(payload, 'repository') ?? ofPull);
}

function several(list: Json, read: (change: Json) => Change): Pick<Facts, 'changes' | 'unread'> {
  if (!Array.isArray(list)) throw new PayloadError('changes', 'is_blank', 'The payload has no list of changes.');
  const all = listOf(list);
  return { changes: all.slice(0, most.hookChanges).map(read), unread: Math.max(0, all.length - most.hookChanges) };
}

/** `new` is null for a deleted branch or tag, and `old` for a new one. */
function cloudPush(change: Json): Change {
  const isDeleted = at(change, 'new') === null;
  const place = at(change, isDeleted ? 'old' : 'new');
  const prefix = textOf(at(place, 'type')).endsWith('tag') ? 'refs/tags/' : 'refs/heads/';
  const ref = refIn(at(place, 'name'), 'changes[new][name]', prefix);
  if (isDeleted) return movedRef(ref, undefined, '');
  const sha = shaIn(at(place, 'target', 'hash'), 'changes[new][target][hash]');
  const before = at(change, 'old') === null ? null : at(change, 'old', 'target', 'hash');
  return movedRef(ref, sha, textOf(at(place, 'target', 'message')), before);
}

/** Newer versions list the commits of all changes together, older ones list none. */
function centerMessages(payload: Json): Map<string, string> {
  const commits = [at(payload, 'toCommit'), ...listOf(at(payload, 'commits'))];
  return new Map(commits.map((commit) => [textOf(at(commit, 'id')), textOf(at(commit, 'message'))]));
}

function centerPush(change: Json, messages: Map<string, string>): Change {
  const ref = refIn(at(change, 'ref', 'id') ?? at(change, 'refId'), 'changes[ref][id]');
  const sha = at(change, 'toHash');
  if (at(change, 'type') === 'DELETE' || isNoCommit(sha)) return movedRef(ref, undefined, '');
  return movedRef(ref, shaIn(sha, 'changes[toHash]'), messages.get(textOf(sha)) ?? '', at(change, 'fromHash'));
}

/**
 * Bitbucket Cloud has no refs for pull requests. A pull request of the same repository is fetched as its branch. A pull
 * request of a fork cannot be fetched.
 */
function cloudPullRequest(payload: Json): Change {
  const pull = at(payload, 'pullrequest');
  const [source, destination] = [at(pull, 'source'), at(pull, 'destination')];
  const fromFork = !areSame(at(source, 'repository'), at(destination, 'repository') ?? at(payload, 'repository'));
  const change: Change = {
    event: 'pull_request',
    ref: refIn(at(source, 'branch', 'name'), 'pullrequest[source][branch][name]', 'refs/heads/'),
    sha: shaIn(at(source, 'commit', 'hash'), 'pullrequest[source][commit][hash]', 'short'),
    before: '',
    targetBranch: refIn(at(destination, 'branch', 'name'), 'pullrequest[destination][branch][name]'),
    pullRequest: numberIn(at(pull, 'id'), 'pullrequest[id]'),
    fromFork,
    headBranch: headBranchIn(at(source, 'branch', 'name'), { fromFork }),
  };
  if (!fromFork) return change;
  return ignoring(change, 'It comes from a fork, and Bitbucket Cloud has no ref for a fork’s pull request.');
}

function centerPullRequest(payload: Json): Change {
  const pull = at(payload, 'pullRequest');
  const number = numberIn(at(pull, 'id'), 'pullRequest[id]');
  const fromFork = !areSame(at(pull, 'fromRef', 'repository'), at(pull, 'toRef', 'repository'));
  return {
    event: 'pull_request',
    ref: `refs/pull-requests/${number}/from`,
    sha: shaIn(at(pull, 'fromRef', 'latestCommit'), 'pullRequest[fromRef][latestCommit]'),
    before: '',
    targetBranch: refIn(at(pull, 'toRef', 'id'), 'pullRequest[toRef][id]').replace(/^refs\/heads\//, ''),
    pullRequest: number,
    fromFork,
    headBranch: headBranchIn(at(pull, 'fromRef', 'id'), { fromFork }),
  };
}
