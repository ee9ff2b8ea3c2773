export const providerNames = ['github', 'gitlab', 'gitea', 'bitbucket'] as const;
export type ProviderName = (typeof providerNames)[number];

/** Facts about a kind of forge for users. The calls to its API are in `server/forges/index.ts`. */
export interface ForgeProvider {
  name: string;
  /** The public forge, which is the default. */
  url: string;
  /** The public hosts of this kind. */
  hosts: readonly string[];
  /** Words that show this kind in the names of other hosts. */
  words: RegExp;
  /** Whether a repository can be in groups within groups. */
  isNested: boolean;
  /** Where a token is made, and the scopes to tick. */
  tokens: string;
  scopes: readonly string[];
  /** The pages below a repository. */
  pages: { commit: string; branch: string; pullRequest: string };
  /** Where a key for one repository is installed: the page below the repository, and the menus that lead there. */
  key: { page: string; menus: readonly string[]; note?: string };
  /** Where a webhook is added. */
  hook: string;
}

export const forgeProviders = {
  github: {
    name: 'GitHub',
    url: 'https://github.com',
    hosts: ['github.com'],
    words: /github/,
    isNested: false,
    tokens: '/settings/tokens/new?scopes=repo',
    scopes: ['repo'],
    pages: { commit: 'commit', branch: 'tree', pullRequest: 'pull' },
    key: {
      page: '/settings/keys/new',
      menus: ['Settings', 'Deploy keys', 'Add deploy key'],
      note: 'Tick Allow write access only if Headrace deploys there.',
    },
    hook: 'Settings, Webhooks, Add webhook. Content type application/json; choose pushes and pull requests.',
  },
  gitlab: {
    name: 'GitLab',
    url: 'https://gitlab.com',
    hosts: ['gitlab.com'],
    words: /gitlab/,
    isNested: true,
    tokens: '/-/user_settings/personal_access_tokens?scopes=api',
    scopes: ['api'],
    pages: { commit: '-/commit', branch: '-/tree', pullRequest: '-/merge_requests' },
    key: { page: '/-/settings/repository', menus: ['Settings', 'Repository', 'Deploy keys', 'Add new key'] },
    hook: 'Settings, Webhooks, Add new webhook. The secret is the signing token; older versions take it as secret token.',
  },
  gitea: {
    name: 'Gitea or Forgejo',
    url: 'https://gitea.com',
    hosts: ['gitea.com', 'codeberg.org'],
    words: /gitea|forgejo|codeberg/,
    isNested: false,
    tokens: '/user/settings/applications',
    scopes: ['write:repository', 'read:user'],
    pages: { commit: 'commit', branch: 'src/branch', pullRequest: 'pulls' },
    key: { page: '/settings/keys', menus: ['Settings', 'Deploy Keys', 'Add Deploy Key'] },
    hook: 'Settings, Webhooks, Add webhook.',
  },
  bitbucket: {
    name: 'Bitbucket',
    url: 'https://bitbucket.org',
    hosts: ['bitbucket.org'],
    words: /bitbucket/,
    isNested: false,
    tokens: '/account/settings/',
    scopes: ['repository', 'repository:admin', 'webhook', 'account'],
    pages: { commit: 'commits', branch: 'branch', pullRequest: 'pull-requests' },
    key: { page: '/admin/access-keys/', menus: ['Repository settings', 'Access keys', 'Add key'] },
    hook: 'Repository settings, Webhooks, Add webhook. Choose pushes and pull requests.',
  },
} as const satisfies Record<ProviderName, ForgeProvider>;

export function isProvider(name: string): name is ProviderName {
  return Object.hasOwn(forgeProviders, name);
}

/** The identifiers of providers and their display names, for a choice. */
export const providerChoices = providerNames.map((name) => [name, forgeProviders[name].name] as const);

interface KnownForge {
  provider: ProviderName;
  url: string;
}

/** Bitbucket Data Center is another program than Bitbucket Cloud. */
export function isDataCenter({ provider, url }: KnownForge): boolean {
  return provider === 'bitbucket' && url !== forgeProviders.bitbucket.url;
}

const dataCenter = { tokens: '/plugins/servlet/access-tokens/manage', scopes: ['Repository admin'] } as const;

/** Where a token is made at this forge, and the scopes to tick there. */
export function tokensAt(forge: KnownForge): Pick<ForgeProvider, 'tokens' | 'scopes'> {
  return isDataCenter(forge) ? dataCenter : forgeProviders[forge.provider];
}

/** Such as “scopes a, b and c”. */
export function scopesInWords(scopes: readonly string[]): string {
  const last = scopes.slice(-1).join('');
  const before = scopes.slice(0, -1).join(', ');
  return before === '' ? `scope ${last}` : `scopes ${before} and ${last}`;
}
