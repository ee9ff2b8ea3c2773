import { isDataCenter, type ProviderName } from '../../shared/domain/forge-providers.ts';
import { ForgeApi, type ForgeRules } from './api.ts';
import { bitbucketCloud, bitbucketCloudApi, bitbucketCloudStatus, bitbucketHeaders } from './bitbucket-cloud.ts';
import { bitbucketDataCenter, bitbucketDataCenterStatus } from './bitbucket-data-center.ts';
import type { Forge, ForgeAccess, StatusForm } from './forge.ts';
import { gitea, giteaHeaders } from './gitea.ts';
import { github, githubApi, githubHeaders, githubStatus, isAppToken } from './github.ts';
import { gitlab, gitlabHeaders, gitlabStatus } from './gitlab.ts';

/** How to call a kind of forge. Details for users are in `shared/domain/forge-providers.ts`. */
interface GitUserOf {
  provider: ProviderName;
  url: string;
  login: string;
}

interface Provider {
  /** The base of the API of the forge at an address. */
  api: (url: string) => string;
  open: (api: ForgeApi, url: string, token: string) => Forge;
  headers: (token: string) => Record<string, string>;
  status: StatusForm;
  /** The user name that git needs with a token. */
  gitUser: (forge: GitUserOf) => string;
}

export const providers = {
  github: {
    api: githubApi,
    open: (api, _, token) => github(api, isAppToken(token)),
    headers: githubHeaders,
    status: githubStatus,
    gitUser: () => 'x-access-token',
  },
  gitlab: {
    api: (url) => `${url}/api/v4`,
    open: gitlab,
    headers: gitlabHeaders,
    status: gitlabStatus,
    gitUser: () => 'oauth2',
  },
  gitea: {
    api: (url) => `${url}/api/v1`,
    open: gitea,
    headers: giteaHeaders,
    status: githubStatus,
    gitUser: ({ login }) => login,
  },
  bitbucket: {
    api: (url) => (isDataCenter({ provider: 'bitbucket', url }) ? `${url}/rest` : bitbucketCloudApi),
    open: (api, url) => (isDataCenter({ provider: 'bitbucket', url }) ? bitbucketDataCenter : bitbucketCloud)(api),
    headers: bitbucketHeaders,
    status: bitbucketCloudStatus,
    gitUser: (forge) => (isDataCenter(forge) ? forge.login : 'x-token-auth'),
  },
} as const satisfies Record<ProviderName, Provider>;

/** The path of a forge's repositories over HTTPS, with a trailing slash. Blank if its host serves only them. */
export function gitFolderOf(forge: { provider: ProviderName; url: string }): string {
  return `${new URL(forge.url).pathname}/${isDataCenter(forge) ? 'scm/' : ''}`.replace(/^\/+/, '');
}

/** Opens forges by the rules of a server. */
export type OpenForge = (name: ProviderName, access: ForgeAccess, pace?: ForgeRules['pace']) => Forge;

/** Opens a forge with a user's token for it. Each call waits for `pace` first. */
export function forgeOpener(rules: ForgeRules): OpenForge {
  return (name, { url, token }, pace) => {
    const api = providers[name].api(url);
    return openForgeAt(name, { url, token, api }, { ...rules, ...(pace && { pace }) });
  };
}

/** `api` is the base of its API. */
export function openForgeAt(name: ProviderName, access: ForgeAccess & { api: string }, rules: ForgeRules): Forge {
  const { url, token, api } = access;
  const { headers, open }: Provider = providers[name];
  const base = api.replace(/\/+$/, '');
  return open(new ForgeApi({ base, headers: headers(token), secrets: secretsOf(token) }, rules), url, token);
}

/**
 * The texts to mask. A Bitbucket token may have an address before it, which is no secret. So the part after the address
 * is also masked separately.
 */
export const secretsOf = (token: string): string[] => [token, token.slice(token.indexOf(':') + 1)];

export interface StatusCall {
  url: string;
  headers: Record<string, string>;
  states: StatusForm['states'];
  body: StatusForm['body'];
  secrets: readonly string[];
}

/** With `/rest/api/1.0`, as its documentation writes the base, or only with `/rest`. */
const dataCenterBase = /\/rest(\/api\/[\w.]+)?$/;

/** Where and how to report a commit's status to a forge. `api` is the base of its API. */
export function statusCallTo(
  name: ProviderName,
  { api, repository, token, sha }: { api: string; repository: string; token: string; sha: string },
): StatusCall {
  const base = api.replace(/\/+$/, '');
  const isBelowRest = name === 'bitbucket' && dataCenterBase.test(new URL(base).pathname);
  const { headers, status } = providers[name];
  const { path, states, body }: StatusForm = isBelowRest ? bitbucketDataCenterStatus : status;
  return {
    url: `${isBelowRest ? base.replace(dataCenterBase, '/rest') : base}${path(repository, encodeURIComponent(sha))}`,
    headers: headers(token),
    states,
    body,
    secrets: secretsOf(token),
  };
}
