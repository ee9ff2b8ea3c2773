import type { BuildRequestRow } from '../db/schema.ts';
import { suitesOf } from './chosen-suites.ts';
import type { NewRequest } from './requests.ts';

/** The same pull request and head, from the same origin. */
export function askedAgain(request: BuildRequestRow): Omit<NewRequest, 'createdBy'> {
  const { commit_ref: asked, fetch_ref: by, join_key: key, head_sha: commitRef } = request;
  return {
    commitRef,
    isAgain: true,
    suites: suitesOf(request).ids,
    suiteNames: request.suite_names,
    variables: request.variables,
    priority: request.priority,
    reuse: request.reuse,
    trigger: {
      source: request.trigger,
      event: 'pull_request',
      pullRequest: request.pull_request,
      targetBranch: request.target_branch,
      fromFork: request.from_fork === 1,
      sender: request.sender,
      headBranch: key.slice(key.indexOf(' ') + 1),
      fetchRef: by === '' && asked.startsWith('refs/') ? asked : by,
      group: request.concurrency_group,
    },
  };
}
