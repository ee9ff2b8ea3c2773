import { bytes } from '../shared/domain/bounds.ts';
import { createMask } from '../shared/domain/masking.ts';
import { formatBytes } from '../shared/lib/byte-units.ts';
import { cutBytes } from '../shared/lib/cut-bytes.ts';
import type { Link } from '../shared/protocol/index.ts';
import { untilAnswered } from './retry.ts';
import type { RunFiles } from './sandbox/types.ts';

interface Keeping {
  link: Pick<Link, 'summary'>;
  secrets: readonly string[];
  claim: string;
  /** Writes to the build's log. */
  print: (text: string) => Promise<void>;
  signal: AbortSignal;
}

/** Sends the build's summary to the server, masked, if there is one. */
export async function keepSummary(
  left: Pick<RunFiles, 'summary'>,
  { link, secrets, claim, print, signal }: Keeping,
): Promise<void> {
  const written = left.summary();
  if (written.length === 0) return;
  // A secret may have control characters, and other text may become one without them. Masked before it is cut, so that
  // no part of a secret is left at the end.
  const mask = createMask(secrets);
  const masked = mask.maskText(textOf(mask.maskText(written.toString())));
  const markdown = cutBytes(Buffer.from(masked), bytes.summary);
  if (markdown.length < masked.length)
    await print(`\nThe summary is longer than ${formatBytes(bytes.summary)}. The rest is cut off.\n`);
  if (markdown.trim() === '') return;
  const receipt = await untilAnswered(signal, () => link.summary({ claim, markdown }, signal));
  if ('refused' in receipt) await print('\nThe summary is not stored: the disk of the server is full.\n');
}

/** Markdown has no other control characters, and no database holds a NUL. */
function textOf(written: string): string {
  return written.replaceAll(/[^\P{Cc}\t\n\r]/gu, '');
}
