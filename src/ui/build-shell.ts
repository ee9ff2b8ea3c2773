import { html, type Html } from './html.ts';
import { moment } from './moments.ts';
import { copyable } from './parts.ts';

/** How to look around in a build that failed, while a shell can be opened in its files. */
export function shellPart(build: { id_str: string; files_kept_until?: string }): Html | false {
  const { id_str: id, files_kept_until: until } = build;
  if (until === undefined) return false;
  return html`<p class="aside">Its files are kept until ${moment(until)}. A shell in them:</p>
    ${copyable(`headrace shell ${id}`, 'shell-command')}`;
}
