import type { Call } from '../api/call.ts';
import { groupOf } from '../../shared/records/raw.ts';
import { named } from '../../shared/documents/document.ts';
import { filesFromOf, isSame, suites, type Node } from '../../shared/documents/kinds.ts';
import type { Step } from './config-steps.ts';

/* Needs and files of suites, by name. They are set once all suites of the document exist. */

interface Needing {
  id: bigint;
  name: string;
  needs: readonly { name: string }[];
}

interface Names {
  needs: readonly string[];
  filesFrom: string;
}

interface Change {
  node: Node;
  name: string;
  from: Names;
  to: Names;
}

const none: Names = { needs: [], filesFrom: '' };
const nameOf = ({ entry }: Node): string => `${entry.name as string | number}`;

function changedNeeds(records: readonly Needing[], nodes: readonly Node[]): Change[] {
  const before = new Map(
    records.map((record): [string, Names] => [
      record.name,
      { needs: record.needs.map((needed) => needed.name), filesFrom: filesFromOf(record) },
    ]),
  );
  return nodes.flatMap((node) => {
    const name = nameOf(node);
    const to = {
      needs: node.entry.needs as readonly string[],
      filesFrom: (node.entry.files_from as string | undefined) ?? '',
    };
    const from = before.get(name) ?? none;
    return isSame(from.needs, to.needs) && from.filesFrom === to.filesFrom ? [] : [{ node, name, from, to }];
  });
}

const isGone = ({ action, section }: Step): boolean => action === 'delete' && section === suites.section;

/** After all suites are created, and before any is deleted. */
export async function withNeeds(
  within: Call['within'],
  params: Readonly<Record<string, bigint>>,
  nodes: readonly Node[],
  steps: readonly Step[],
): Promise<Step[]> {
  const list = async () => (await within(`GET ${suites.path}`, params)) as Needing[];
  const put = async ({ node, name }: Change, { needs, filesFrom }: Names): Promise<void> => {
    const ids = new Map((await list()).map((suite) => [suite.name, suite.id]));
    const own = { ...params, suite_id: ids.get(name) ?? 0n };
    const idOf = (needed: string): string => String(ids.get(needed) ?? '');
    const body = groupOf({ needs: needs.map(idOf), files_from_id: idOf(filesFrom) });
    await named(node.at, () => within(`PUT ${suites.path}/:suite_id`, own, body));
  };
  const changes = changedNeeds(await list(), nodes);
  const changed = changes.map((change, at): Step => ({
    action: 'change',
    section: suites.section,
    what: `suite ${change.name}`,
    fields: [
      { name: 'needs', from: change.from.needs.join(', '), to: change.to.needs.join(', ') },
      { name: 'files_from', from: change.from.filesFrom, to: change.to.filesFrom },
    ].filter(({ from, to }) => from !== to),
    async run() {
      // A single change could form a cycle with needs that a later change removes. So all needs are removed first.
      if (at === 0) for (const other of changes) if (other.from.needs.length > 0) await put(other, none);
      await put(change, change.to);
      return {};
    },
  }));
  return changed.length === 0 ? [...steps] : suitesGoLast([...steps, ...changed]);
}

const order = (step: Step): number => (isGone(step) ? 2 : step.isLate ? 1 : 0);

/** A suite is deleted, or stops being manual, once nothing uses it. */
export function suitesGoLast(steps: readonly Step[]): Step[] {
  return steps.toSorted((a, b) => order(a) - order(b));
}

/** A suite can be deleted only after the suites that need it. */
export function needersFirst<Record extends object>(records: readonly Record[]): Record[] {
  const needing = records as readonly (Record & Needing)[];
  const byName = new Map(needing.map((record) => [record.name, record]));
  const ordered = new Set<Record>();
  const visit = (record: Record & Needing): void => {
    if (ordered.has(record)) return;
    for (const { name } of record.needs) {
      const needed = byName.get(name);
      if (needed) visit(needed);
    }
    ordered.add(record);
  };
  for (const record of needing) visit(record);
  return [...ordered].toReversed();
}
