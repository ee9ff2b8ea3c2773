import { isIP } from 'node:net';
import { projectRoute } from '../api/route.ts';
import type { VisibleProject } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import {
  forgeProviders,
  isDataCenter,
  isProvider,
  providerNames,
  type ProviderName,
} from '../../shared/domain/forge-providers.ts';
import { locationOf } from '../../shared/domain/git-address.ts';
import { httpsOrigin } from '../forges/git-credential.ts';
import { forgeLinksRecord, type ForgeLinks } from '../../shared/records/overview.ts';

type Pages = Record<'commit' | 'branch' | 'pullRequest', string>;
type Project = Pick<VisibleProject, 'id' | 'clone_url' | 'forge_id' | 'forge_repository'>;

const unknown: ForgeLinks = { host: '', commit_url: '', branch_url: '', pull_request_url: '' };

/**
 * The forge has a known host, or status targets or hooks show its kind. Links are blank if the addresses of its pages
 * are uncertain.
 */
export async function linksAtForge(db: Queries, project: Project): Promise<ForgeLinks> {
  if (project.forge_id !== null) return linksAtConnected(db, project.forge_id, project.forge_repository);
  const { id, clone_url: url } = project;
  const { host, path } = locationOf(url) ?? { host: '', path: '' };
  // A host without a dot is an SSH alias, and an absolute path belongs to a plain server.
  if (!host.includes('.') || isIP(host.replaceAll(/[[\]]/g, '')) !== 0 || !repositoryPath.test(path)) return unknown;
  const isOfHost = (name: ProviderName): boolean => (forgeProviders[name].hosts as readonly string[]).includes(host);
  const provider = providerNames.find(isOfHost) ?? (await providerFromSettings(db, id, host));
  if (provider === undefined) return unknown;
  const { pages, isNested } = forgeProviders[provider];
  if (!isNested && path.split('/').length !== 2) return unknown;
  return linksBelow(`${httpsOrigin(url) || `https://${host}`}/${path}`, pages);
}

/** A connected forge has a known public address, even if git uses another address. */
async function linksAtConnected(db: Queries, forgeId: bigint, repository: string): Promise<ForgeLinks> {
  const forges = db.selectFrom('forges').select(['provider', 'url']).where('id', '=', forgeId);
  const { provider, url } = await forges.executeTakeFirstOrThrow();
  if (!isDataCenter({ provider, url })) return linksBelow(`${url}/${repository}`, forgeProviders[provider].pages);
  const [key = '', name = ''] = repository.split('/');
  // Bitbucket Data Center names the branch in a query parameter, which comes last in an address.
  return linksBelow(`${url}/projects/${key}/repos/${name}`, {
    commit: 'commits',
    branch: 'browse?at=',
    pullRequest: 'pull-requests',
  });
}

function linksBelow(repository: string, pages: Pages): ForgeLinks {
  const at = (page: string): string => `${repository}/${page}${page.endsWith('=') ? '' : '/'}`;
  return {
    host: new URL(repository).host,
    commit_url: at(pages.commit),
    branch_url: at(pages.branch),
    pull_request_url: at(pages.pullRequest),
  };
}

/** An owner and a name, with optional groups between, but no `.` or `..`. All characters are valid in addresses. */
const repositoryPath = /^(?!\.{1,2}\/)[\w.~-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/;

async function providerFromSettings(db: Queries, projectId: bigint, host: string): Promise<ProviderName | undefined> {
  const targets = await db
    .selectFrom('notifications')
    .select(['name', 'url'])
    .where('project_id', '=', projectId)
    .where('notifiable_type', '=', 'status')
    .execute();
  const hooks = await db.selectFrom('hooks').select('provider').where('project_id', '=', projectId).execute();
  const sentences = [
    ...targets.filter(({ url }) => URL.parse(url)?.hostname === host).map(({ name }) => name),
    ...hooks.map(({ provider }) => provider),
  ];
  // A self-hosted Bitbucket has other addresses than bitbucket.org.
  return sentences.find((name): name is ProviderName => name !== 'bitbucket' && isProvider(name));
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/forge_links',
    access: 'viewer',
    scope: 'projects',
    summary:
      "The forge's addresses of commits, branches and pull requests of a project: addresses to which a SHA, a " +
      'name or a number is added; blank if unknown',
    answer: forgeLinksRecord,
    handle: async ({ db, project }) => linksAtForge(db, project),
  }),
];
