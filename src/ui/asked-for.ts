import type { BuildRequest } from '../records/build-request.ts';
import { branchAtForge, outward, type ForgeLinks } from './forge-links.ts';
import { html, type Html } from './html.ts';

/** What a build request says of its origin. */
export type AskedFor = Pick<BuildRequest, 'created_by' | 'event' | 'pull_request' | 'sender' | 'target_branch'>;

/** How the build request came about, and by whom. */
export function askedFor(request: AskedFor, links: ForgeLinks | undefined): Html {
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
  if (event === 'poll') return html`found when the repository was looked at${target !== '' && html`, on ${branch}`}`;
  return event === 'schedule' ? html`scheduled` : html`asked for by ${by}`;
}
