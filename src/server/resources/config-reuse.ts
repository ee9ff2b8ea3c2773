import type { Queries } from '../db/open.ts';
import type { Node } from '../../shared/documents/kinds.ts';
import { stoppedSuites } from '../lifecycle/reuse-checks.ts';

/** A suite that was found to end differently on the same inputs is not reused, whatever a document says. Log lines. */
export async function keepStops(db: Queries, projectId: bigint, { children }: Node): Promise<string[]> {
  const stopped = await stoppedSuites(db, projectId);
  return (children.suites ?? []).flatMap(({ entry }) => {
    const name = `${entry.name as string | number}`;
    if (!stopped.has(name) || entry.reuse !== 'on') return [];
    (entry as Record<string, unknown>).reuse = 'off';
    return [
      `The suite ${name} keeps reuse = "off": a reused result was wrong. Only a user can switch it on again, in the settings.`,
    ];
  });
}
