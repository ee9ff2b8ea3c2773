import type { BuildRequest } from '../../shared/records/build-request.ts';
import type { ForgeLinks as ForgeAddresses } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { shortSha } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

export interface ForgeLinks {
  host: string;
  commit(sha: string): string;
  branch(name: string): string;
  pullRequest(number: bigint | number): string;
}

export function linksOf(forge: ForgeAddresses): ForgeLinks | undefined {
  if (forge.host === '') return undefined;
  return {
    host: forge.host,
    commit: (sha) => `${forge.commit_url}${inPath(sha)}`,
    branch: (name) => `${forge.branch_url}${inPath(name)}`,
    pullRequest: (number) => `${forge.pull_request_url}${number}`,
  };
}

/** The public does not see which forge a project is connected to. */
export async function forgeLinks({
  api,
  isMember,
}: Pick<ProjectVisit, 'api' | 'isMember'>): Promise<ForgeLinks | undefined> {
  if (!isMember) return undefined;
  return linksOf(await api.get('/projects/:project_id/forge_links'));
}

function inPath(name: string): string {
  return name.toWellFormed().split('/').map(encodeURIComponent).join('/');
}

/** A link to a forge that does not reveal the user's page. */
export function outward(href: string, text: string | Html): Html {
  return html`<a href="${href}" rel="noreferrer">${text}</a>`;
}

export function commitAtForge(links: ForgeLinks | undefined, sha: string): Html | false {
  return links !== undefined && html`<span class="aside">${outward(links.commit(sha), `on ${links.host}`)}</span>`;
}

export function branchAtForge(links: ForgeLinks | undefined, name: string): Html {
  const shown = html`<code>${name}</code>`;
  return links ? outward(links.branch(name), shown) : shown;
}

/** The name of a request in a breadcrumb. */
export function requestName({ pull_request: number, commit_ref: ref }: NamedRequest): string {
  if (number !== null) return `Pull request ${number}`;
  return `Request for ${/^[0-9a-f]{40,64}$/.test(ref) ? shortSha(ref) : ref}`;
}

type NamedRequest = Pick<BuildRequest, 'pull_request' | 'commit_ref'>;

export type RequestOrigin = Pick<BuildRequest, 'created_by' | 'event' | 'pull_request' | 'sender' | 'target_branch'>;

export function askedFor(request: RequestOrigin, links: ForgeLinks | undefined): Html {
  const { event, pull_request: number, target_branch: target, sender, created_by: by } = request;
  const who = sender === '' ? '' : ` by ${sender}`;
  const branch = branchAtForge(links, target);
  if (event === 'push') return html`pushed to ${branch}${who}`;
  if (event === 'tag') return html`tag pushed${who}`;
  if (event === 'pull_request' && number !== null) {
    const named = html`pull request ${String(number)}`;
    const pull = links ? outward(links.pullRequest(number), named) : named;
    return html`${pull}${target !== '' && html` into ${branch}`}${who}`;
  }
  if (event === 'poll') return html`found by polling${target !== '' && html` on ${branch}`}`;
  if (event === 'schedule') return html`scheduled`;
  return by === '' ? html`requested` : html`asked for by ${by}`;
}
