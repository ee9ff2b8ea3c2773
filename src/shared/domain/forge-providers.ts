/** `tokens` is the page that makes a token, and `scopes` lists the scopes to tick. */
export const forgeProviders = {
  github: { name: 'GitHub', url: 'https://github.com', tokens: '/settings/tokens/new?scopes=repo', scopes: ['repo'] },
  gitlab: {
    name: 'GitLab',
    url: 'https://gitlab.com',
    tokens: '/-/user_settings/personal_access_tokens?scopes=api',
    scopes: ['api'],
  },
  gitea: {
    name: 'Gitea or Forgejo',
    url: 'https://gitea.com',
    tokens: '/user/settings/applications',
    scopes: ['write:repository', 'read:user'],
  },
  bitbucket: {
    name: 'Bitbucket',
    url: 'https://bitbucket.org',
    tokens: '/account/settings/',
    scopes: ['repository', 'repository:admin', 'webhook', 'account'],
  },
} as const;

export type ProviderName = keyof typeof forgeProviders;

interface KnownForge {
  provider: ProviderName;
  url: string;
}

/** Bitbucket Data Center is another program than Bitbucket Cloud. */
export function isDataCenter({ provider, url }: KnownForge): boolean {
  return provider === 'bitbucket' && url !== forgeProviders.bitbucket.url;
}

const dataCenter = { tokens: '/plugins/servlet/access-tokens/manage', scopes: ['Repository admin'] } as const;

export function tokensAt(forge: KnownForge) {
  return isDataCenter(forge) ? dataCenter : forgeProviders[forge.provider];
}

export function scopesInWords(scopes: readonly string[]): string {
  const last = scopes.slice(-1).join('');
  const before = scopes.slice(0, -1).join(', ');
  return before === '' ? `scope ${last}` : `scopes ${before} and ${last}`;
}
