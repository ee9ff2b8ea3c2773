import { createHash } from 'node:crypto';
import type { Attempt } from '../lifecycle/webhook-deliveries.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { StatusReport } from '../lifecycle/status-reports.ts';
import type { HttpCall } from './http-call.ts';

/** The forge that gets a status, and the data for the call. */
export interface ForgeTarget {
  /** The base of its API. */
  url: string;
  repository: string;
  token: string;
  /** The address of this service, for links to the page of the build. */
  origin: string;
}

interface Forge {
  /** The path of the call, below the base of the API. */
  path: (target: ForgeTarget, sha: string) => string;
  headers: (token: string) => Record<string, string>;
  states: Record<BuildState, string>;
  body: (status: { state: string; context: string; description: string; address: string }) => object;
}

const encoded = (repository: string): string => repository.split('/').map(encodeURIComponent).join('/');

/** GitHub's limit for a description, the smallest of all forges. */
const longestDescription = 140;

/** GitHub has no state for running, cancelled or skipped. What was not run must not look tested. */
const githubStates: Record<BuildState, string> = {
  enqueued: 'pending',
  waiting_for_approval: 'pending',
  running: 'pending',
  passed: 'success',
  failed: 'failure',
  timed_out: 'failure',
  errored: 'error',
  cancelled: 'error',
  skipped: 'error',
};

const github: Forge = {
  path: ({ repository }, sha) => `/repos/${encoded(repository)}/statuses/${sha}`,
  headers: (token) => ({
    accept: 'application/vnd.github+json',
    authorization: `Bearer ${token}`,
    'x-github-api-version': '2022-11-28',
  }),
  states: githubStates,
  body: ({ state, context, description, address }) => ({ state, target_url: address, description, context }),
};

/** Its API is GitHub's, except for the way the token is sent. */
const gitea: Forge = {
  ...github,
  headers: (token) => ({ accept: 'application/json', authorization: `token ${token}` }),
};

const gitlab: Forge = {
  path: ({ repository }, sha) => `/projects/${encodeURIComponent(repository)}/statuses/${sha}`,
  headers: (token) => ({ accept: 'application/json', 'private-token': token }),
  states: {
    enqueued: 'pending',
    waiting_for_approval: 'pending',
    running: 'running',
    passed: 'success',
    failed: 'failed',
    timed_out: 'failed',
    errored: 'failed',
    cancelled: 'canceled',
    skipped: 'canceled',
  },
  body: ({ state, context, description, address }) => ({ state, name: context, target_url: address, description }),
};

const bitbucketStates: Record<BuildState, string> = {
  enqueued: 'INPROGRESS',
  waiting_for_approval: 'INPROGRESS',
  running: 'INPROGRESS',
  passed: 'SUCCESSFUL',
  failed: 'FAILED',
  timed_out: 'FAILED',
  errored: 'FAILED',
  cancelled: 'STOPPED',
  skipped: 'STOPPED',
};

const bitbucketCloud: Forge = {
  path: ({ repository }, sha) => `/repositories/${encoded(repository)}/commit/${sha}/statuses/build`,
  headers: (token) => ({ accept: 'application/json', authorization: bearerOrBasic(token) }),
  states: bitbucketStates,
  body: ({ state, context, description, address }) => ({
    key: keyOf(context),
    state,
    name: context,
    url: address,
    description,
  }),
};

/** A self-hosted server. It has another API, below `/rest`, and no state for a stopped build. */
const bitbucketDataCenter: Forge = {
  ...bitbucketCloud,
  path({ repository }, sha) {
    const [project = '', name = ''] = repository.split('/').map(encodeURIComponent);
    return `/api/latest/projects/${project}/repos/${name}/commits/${sha}/builds`;
  },
  states: { ...bitbucketStates, cancelled: 'FAILED', skipped: 'FAILED' },
};

/** With `/rest/api/1.0`, as its documentation writes the base, or with `/rest` alone. */
const dataCenterBase = /\/rest(\/api\/[\w.]+)?$/;

/**
 * An access token is sent alone. A personal API token belongs to an e-mail address, and is configured as
 * `address:token`.
 */
function bearerOrBasic(token: string): string {
  return token.includes(':') ? `Basic ${Buffer.from(token).toString('base64')}` : `Bearer ${token}`;
}

const longestKey = 40;

/** Bitbucket identifies a status by its key. A name that is too long for a key is replaced by its hash. */
function keyOf(context: string): string {
  return context.length <= longestKey
    ? context
    : createHash('sha256').update(context).digest('hex').slice(0, longestKey);
}

/** The call that reports the status of a suite on a commit to a forge. */
export function statusCall(provider: string, report: StatusReport, target: ForgeTarget): HttpCall {
  const base = target.url.replace(/\/+$/, '');
  const isDataCenter = provider === 'bitbucket' && dataCenterBase.test(new URL(base).pathname);
  const forge = isDataCenter ? bitbucketDataCenter : forgeOf(provider);
  const { context, build_state: state, ref } = report;
  const description = report.description.slice(0, longestDescription);
  const status = {
    state: forge.states[state as BuildState],
    context,
    description,
    address: target.origin + report.path,
  };
  return {
    url: `${isDataCenter ? base.replace(dataCenterBase, '/rest') : base}${forge.path(target, encodeURIComponent(ref))}`,
    headers: forge.headers(target.token),
    body: JSON.stringify(forge.body(status)),
    secrets: [target.token, target.token.slice(target.token.indexOf(':') + 1)],
  };
}

const forges: Record<string, Forge> = { github, gitea, gitlab, bitbucket: bitbucketCloud };

function forgeOf(provider: string): Forge {
  const forge = forges[provider];
  if (!forge) throw new Error(`${provider} is no forge that could be told of statuses`);
  return forge;
}

/**
 * What an answer means. If a forge refuses a report for its content, a retry would be refused too, and the next reports
 * in the line do not depend on it. Examples: an unknown commit, or too many statuses for one context.
 */
export function verdictOf(provider: string, { status, answer }: Attempt): 'taken' | 'refused' | 'not_taken' {
  if (status !== null && status >= 200 && status < 300) return 'taken';
  if (provider === 'webhook') return 'not_taken';
  // GitLab refuses a change from a state to the same state.
  if (provider === 'gitlab' && status === 400 && answer.includes('Cannot transition status')) return 'taken';
  if (status === 400 || status === 422) return 'refused';
  return status === 404 && /commit/i.test(answer) ? 'refused' : 'not_taken';
}
