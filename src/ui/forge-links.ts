import { isIP } from 'node:net';
import type { Queries } from '../db/open.ts';
import { parseAddress } from '../lib/repository-address.ts';
import { html, type Html } from './html.ts';

/** Links to what a forge has of a project's repository: commits, branches and pull requests. */

/** The addresses of one repository at its forge. */
export interface ForgeLinks {
  host: string;
  commit(sha: string): string;
  branch(name: string): string;
  pullRequest(number: bigint | number): string;
}

type Pages = readonly [commit: string, branch: string, pullRequest: string];

/** What follows the address of the repository. */
const pages: Record<string, Pages> = {
  github: ['commit', 'tree', 'pull'],
  gitlab: ['-/commit', '-/tree', '-/merge_requests'],
  gitea: ['commit', 'src/branch', 'pulls'],
  bitbucket: ['commits', 'branch', 'pull-requests'],
};

const knownHosts: Record<string, string> = {
  'github.com': 'github',
  'gitlab.com': 'gitlab',
  'bitbucket.org': 'bitbucket',
  'codeberg.org': 'gitea',
};

interface Project {
  id: bigint;
  repository_url: string;
}

/**
 * The forge of a project: a host that everybody knows, or one whose kind the project's status targets or hooks tell.
 * undefined where the address of its pages is not certain.
 */
export async function forgeLinks(db: Queries, { id, repository_url: url }: Project): Promise<ForgeLinks | undefined> {
  const { host, path } = parseAddress(url) ?? { host: '', path: '' };
  // A host without a dot is an alias in the operator's SSH configuration, and a path from the root one of a plain server.
  if (!host.includes('.') || isIP(host.replaceAll(/[[\]]/g, '')) !== 0 || !repositoryPath.test(path)) return undefined;
  const provider = knownHosts[host] ?? (await toldProvider(db, id, host));
  const of = provider === undefined ? undefined : pages[provider];
  if (!of || (provider !== 'gitlab' && path.split('/').length !== 2)) return undefined;
  const [commit, branch, pullRequest] = of;
  const at = (below: string, name: string): string => `https://${host}/${inPath(path)}/${below}/${inPath(name)}`;
  return {
    host,
    commit: (sha) => at(commit, sha),
    branch: (name) => at(branch, name),
    pullRequest: (number) => at(pullRequest, String(number)),
  };
}

/** An owner and a name, with groups between them; none is `.` or `..`. */
const repositoryPath = /^(?!\.{1,2}\/)[\w.~-]+(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+$/;

function inPath(name: string): string {
  return name.toWellFormed().split('/').map(encodeURIComponent).join('/');
}

async function toldProvider(db: Queries, projectId: bigint, host: string): Promise<string | undefined> {
  const targets = await db
    .selectFrom('notifications')
    .select(['name', 'url'])
    .where('project_id', '=', projectId)
    .where('notifiable_type', '=', 'status')
    .execute();
  const hooks = await db.selectFrom('hooks').select('provider').where('project_id', '=', projectId).execute();
  const told = [
    ...targets.filter(({ url }) => URL.parse(url)?.hostname === host).map(({ name }) => name),
    ...hooks.map(({ provider }) => provider),
  ];
  // A Bitbucket of one's own has other addresses than bitbucket.org.
  return told.find((provider) => provider !== 'bitbucket' && provider in pages);
}

/** A link to the forge. It does not tell the forge from which page somebody came. */
export function outward(href: string, text: string | Html): Html {
  return html`<a href="${href}" rel="noreferrer">${text}</a>`;
}

/** The link to a commit at the forge, beside the one to our own page. */
export function commitAtForge(links: ForgeLinks | undefined, sha: string): Html | false {
  return links !== undefined && html`<span class="aside">${outward(links.commit(sha), `on ${links.host}`)}</span>`;
}

/** A branch, as a link where its forge is known. */
export function branchAtForge(links: ForgeLinks | undefined, name: string): Html {
  const shown = html`<code>${name}</code>`;
  return links ? outward(links.branch(name), shown) : shown;
}
