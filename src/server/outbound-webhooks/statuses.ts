import { isProvider } from '../../shared/domain/forge-providers.ts';
import { statusCallTo } from '../forges/index.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import { restAfter } from '../forges/rate-limit.ts';
import type { CallResult, HttpCall, Verdict } from './http-call.ts';

export interface StatusTarget {
  url: string;
  repository: string;
  token: string;
  origin: string;
}

/** GitHub's limit for a description, the smallest of all forges. */
const longestDescription = 140;

export function statusCall(provider: string, report: StatusReport, target: StatusTarget): HttpCall {
  if (!isProvider(provider)) throw new Error(`${provider} is no forge that could be told of statuses`);
  const { url: api, repository, token, origin } = target;
  const { states, body, ...call } = statusCallTo(provider, { api, repository, token, sha: report.ref });
  const status = {
    state: states[report.build_state as BuildState],
    context: report.context,
    description: report.description.slice(0, longestDescription).toWellFormed(),
    address: origin + report.path,
  };
  return { ...call, body: JSON.stringify(body(status)) };
}

export function restWanted(provider: string, { status, answer, retryAfterMs }: CallResult): number | undefined {
  return retryAfterMs ?? (isProvider(provider) ? restAfter(status ?? 0, answer) : undefined);
}

/** The code of an SMTP server for a mailbox that takes nothing. */
export const noTaker = 550;

/** If a forge responds with 500, it may do so for ever, and later reports wait. */
const mostTriesWith500 = 3;

/** A forge that refuses a report's content would refuse a retry, and later reports do not depend on it. */
export function verdictOf(provider: string, { status, answer, verdict }: CallResult, tries: number): Verdict {
  if (verdict !== undefined) {
    const isForEver = verdict === 'not_taken' && status === 500 && tries >= mostTriesWith500;
    return isForEver ? 'refused' : verdict;
  }
  if (status !== null && status >= 200 && status < 300) return 'taken';
  // Another try at the same mailbox ends as this one did. Letters to others follow.
  if (provider === 'email')
    return status !== null && status >= 500 && ![530, 535].includes(status) ? 'refused' : 'not_taken';
  if (!isProvider(provider)) return 'not_taken';
  const isRefused = status === 400 || status === 409 || status === 422;
  // GitLab refuses a change to the same state, and other forges refuse a status that they already have.
  if (isRefused && /Cannot transition status|already/i.test(answer)) return 'taken';
  if (isRefused || (status === 500 && tries >= mostTriesWith500)) return 'refused';
  return status === 404 && /commit/i.test(answer) ? 'refused' : 'not_taken';
}
