import { isDataCenter, type ProviderName } from '../../shared/domain/forge-providers.ts';
import { ForgeApi, type ForgeRules } from './api.ts';
import { bitbucketCloud, bitbucketCloudApi, bitbucketCloudStatus, bitbucketHeaders } from './bitbucket-cloud.ts';
import { bitbucketDataCenter, bitbucketDataCenterStatus } from './bitbucket-data-center.ts';
import type { Forge, ForgeAccess, StatusForm } from './forge.ts';
import { gitea, giteaHeaders } from './gitea.ts';
import { github, githubApi, githubHeaders, githubStatus } from './github.ts';
import { gitlab, gitlabHeaders, gitlabStatus } from './gitlab.ts';

interface Provider {
  api: (url: string) => string;
  open: (api: ForgeApi, url: string) => Forge;
  headers: (token: string) => Record<string, string>;
  status: StatusForm;
}

export const providers = {
  github: {
    api: githubApi,
    open: github,
    headers: githubHeaders,
    status: githubStatus,
  },
  gitlab: {
    api: (url) => `${url}/api/v4`,
    open: gitlab,
    headers: gitlabHeaders,
    status: gitlabStatus,
  },
  gitea: {
    api: (url) => `${url}/api/v1`,
    open: gitea,
    headers: giteaHeaders,
    status: githubStatus,
  },
  bitbucket: {
    api: (url) => (isDataCenter({ provider: 'bitbucket', url }) ? `${url}/rest` : bitbucketCloudApi),
    open: (api, url) => (isDataCenter({ provider: 'bitbucket', url }) ? bitbucketDataCenter : bitbucketCloud)(api),
    headers: bitbucketHeaders,
    status: bitbucketCloudStatus,
  },
} as const satisfies Record<ProviderName, Provider>;

export function isProvider(name: string): name is ProviderName {
  return Object.hasOwn(providers, name);
}

/** The path of a forge's repositories over HTTPS, with a trailing slash. Blank if its host serves only them. */
export function gitFolderOf(forge: { provider: ProviderName; url: string }): string {
  return `${new URL(forge.url).pathname}/${isDataCenter(forge) ? 'scm/' : ''}`.replace(/^\/+/, '');
}

export type OpenForge = (name: ProviderName, access: ForgeAccess, pace?: ForgeRules['pace']) => Forge;

/** `pace` is awaited before each call. */
export function forgeOpener(rules: ForgeRules): OpenForge {
  return (name, { url, token }, pace) => {
    const { api, headers, open }: Provider = providers[name];
    const access = { base: api(url), headers: headers(token), secrets: secretsOf(token) };
    return open(new ForgeApi(access, { ...rules, ...(pace && { pace }) }), url);
  };
}

/** A Bitbucket token may start with an email address, which is not secret alone. */
const secretsOf = (token: string): string[] => [token, token.slice(token.indexOf(':') + 1)];

export interface StatusCall {
  url: string;
  headers: Record<string, string>;
  states: StatusForm['states'];
  body: StatusForm['body'];
  secrets: readonly string[];
}

/** Its documentation writes the base as `/rest/api/1.0`. Users also enter `/rest`. */
const dataCenterBase = /\/rest(\/api\/[\w.]+)?$/;

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
