import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, RequestChangesRow } from '../db/schema.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { askedFields, type BuildRequest } from '../../shared/records/build-request.ts';
import type { FetchedInclude } from '../../shared/records/include.ts';
import { withIdString } from './id-string.ts';

export type Shown = BuildRequestRow & { created_by_email: string } & {
  [Name in 'base' | 'compared_with']: RequestChangesRow[Name] | null;
};

export function shownRequests(db: Queries) {
  return db
    .selectFrom('build_requests')
    .innerJoin('users', 'users.id', 'build_requests.created_by')
    .leftJoin('request_changes', 'request_changes.build_request_id', 'build_requests.id')
    .selectAll('build_requests')
    .select(['users.email as created_by_email', 'request_changes.base', 'request_changes.compared_with']);
}

/** `waitingReason` is blank if the request does not wait. */
export function buildRequestView(request: Shown, waitingReason: string): BuildRequest {
  return {
    ...withIdString('id', request.id),
    build_state: request.build_state,
    commit_ref: request.commit_ref,
    ...withIdString('commit_id', request.commit_id),
    created_by: request.trigger === '' ? request.created_by_email : request.trigger,
    created_at: timestamp(request.created_at),
    event: request.event,
    pull_request: request.pull_request,
    target_branch: request.target_branch,
    from_fork: request.from_fork === 1,
    sender: request.sender,
    suites: (JSON.parse(request.suites) as string[]).map((id) => withIdString('id', BigInt(id))),
    suite_names: askedFields.suite_names.fromColumn(request.suite_names),
    variables: askedFields.variables.fromColumn(request.variables),
    priority: request.priority,
    reuse: request.reuse === 1,
    waiting_reason: waitingReason,
    failure_reason: request.failure_reason,
    config_file: request.config_digest === '' ? '' : request.config_file,
    includes: JSON.parse(request.includes) as FetchedInclude[],
    base: request.base ?? '',
    compared_with: request.compared_with ?? '',
    ...withIdString('joined_to_id', request.joined_to_id),
  };
}
