import type { Forge } from '../records/overview.ts';
import { html, type Html } from './html.ts';
import type { PersonVisit } from './site.ts';

/** Links to what a forge has of a project's repository: commits, branches and pull requests. */
export interface ForgeLinks {
  host: string;
  commit(sha: string): string;
  branch(name: string): string;
  pullRequest(number: bigint | number): string;
}

/** undefined where the forge is not known. */
export function linksOf(forge: Forge): ForgeLinks | undefined {
  if (forge.host === '') return undefined;
  return {
    host: forge.host,
    commit: (sha) => `${forge.commit_url}${inPath(sha)}`,
    branch: (name) => `${forge.branch_url}${inPath(name)}`,
    pullRequest: (number) => `${forge.pull_request_url}${number}`,
  };
}

export async function forgeLinks({ api }: Pick<PersonVisit, 'api'>): Promise<ForgeLinks | undefined> {
  return linksOf(await api.get('/projects/:project_id/forge'));
}

function inPath(name: string): string {
  return name.toWellFormed().split('/').map(encodeURIComponent).join('/');
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
