import type { Queries } from '../db/open.ts';
import { timestamp } from '../lib/timestamps.ts';
import { findKept } from '../lifecycle/shells.ts';
import { html, type Html } from './html.ts';
import { moment } from './moments.ts';
import { copyable } from './parts.ts';

/** How to look around in a build that failed, while its files are kept. */
export async function shellPart(db: Queries, build: { id: bigint; id_str: string }): Promise<Html | false> {
  const kept = await findKept(db, build.id);
  if (!kept) return false;
  return html`<p class="aside">Its files are kept until ${moment(timestamp(kept.expires_at))}. A shell in them:</p>
    ${copyable(`headrace shell ${build.id_str}`, 'shell-command')}`;
}
