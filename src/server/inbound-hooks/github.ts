import {
  headBranchIn,
  isNoCommit,
  movedRef,
  numberIn,
  quoted,
  refIn,
  shaIn,
  type Change,
  type Facts,
} from './facts.ts';
import { at, firstText, textOf, type Json } from './json.ts';
import { areSame, commentFacts, repositoryNames, completeFacts, type Reader } from './payload-readers.ts';

/** `push` covers tags. Related events (`create`, `workflow_run`) are ignored, or everything would be built twice. */
const building = {
  github: ['opened', 'synchronize', 'reopened'],
  gitea: ['opened', 'synchronized', 'reopened'],
};

export function readGithub(forge: keyof typeof building): Reader {
  return (event, payload) => {
    const facts = {
      event,
      action: textOf(at(payload, 'action')),
      sender: senderOf(payload),
      repository: repositoryNames(at(payload, 'repository')),
    };
    if (event === 'ping') return completeFacts({ ...facts, idle: 'A ping: the hook is set up.' });
    if (event === 'push') return completeFacts({ ...facts, changes: [pushOf(payload)] });
    if (event === 'issue_comment' || event === 'pull_request_comment') return commentOf(facts, payload);
    if (event !== 'pull_request' && event !== 'pull_request_sync') {
      return completeFacts({ ...facts, idle: `The event ${quoted(event)} starts no build.` });
    }
    if (!building[forge].includes(facts.action)) {
      return completeFacts({
        ...facts,
        idle: `The action ${quoted(facts.action)} of a pull request starts no build.`,
      });
    }
    return completeFacts({ ...facts, changes: [pullRequestOf(payload)] });
  };
}

function commentOf(facts: Partial<Facts>, payload: Json): Facts {
  if (facts.action !== 'created')
    return completeFacts({ ...facts, idle: `The action ${quoted(facts.action ?? '')} of a comment is no command.` });
  const [issue, comment] = [at(payload, 'issue'), at(payload, 'comment')];
  if (typeof at(issue, 'pull_request') !== 'object' || at(issue, 'pull_request') === null)
    return completeFacts({ ...facts, idle: 'The comment is on an issue, and not on a pull request.' });
  const author = { id: at(comment, 'user', 'id'), login: at(comment, 'user', 'login') };
  return commentFacts(facts, {
    id: at(comment, 'id'),
    pullRequest: at(issue, 'number'),
    text: at(comment, 'body'),
    author,
  });
}

/** Older payloads name the user as `pusher`. */
function senderOf(payload: Json): string {
  const names = ['login', 'username', 'name'];
  const people = [at(payload, 'sender'), at(payload, 'pusher')];
  return firstText(...people.flatMap((person) => names.map((name) => at(person, name))));
}

function pushOf(payload: Json): Change {
  const ref = refIn(at(payload, 'ref'), 'ref');
  const after = at(payload, 'after');
  if (at(payload, 'deleted') === true || isNoCommit(after)) return movedRef(ref, undefined, '');
  // For an annotated tag `after` is the tag object, and this is its commit.
  const tagged = ref.startsWith('refs/tags/') ? at(payload, 'head_commit', 'id') : undefined;
  const sha = typeof tagged === 'string' ? shaIn(tagged, 'head_commit[id]') : shaIn(after, 'after');
  return movedRef(ref, sha, textOf(at(payload, 'head_commit', 'message')), at(payload, 'before'));
}

function pullRequestOf(payload: Json): Change {
  const pull = at(payload, 'pull_request');
  const number = numberIn(at(pull, 'number') ?? at(payload, 'number'), 'pull_request[number]');
  const fromFork = !areSame(at(pull, 'head', 'repo'), at(pull, 'base', 'repo') ?? at(payload, 'repository'));
  return {
    event: 'pull_request',
    ref: `refs/pull/${number}/head`,
    sha: shaIn(at(pull, 'head', 'sha'), 'pull_request[head][sha]'),
    before: '',
    targetBranch: refIn(at(pull, 'base', 'ref'), 'pull_request[base][ref]').replace(/^refs\/heads\//, ''),
    pullRequest: number,
    fromFork,
    headBranch: headBranchIn(at(pull, 'head', 'ref'), { fromFork }),
  };
}
