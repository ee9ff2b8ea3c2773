import { groupOf } from '../../shared/records/raw.ts';
import { named } from '../../shared/documents/document.ts';
import { filesFromIn, isSame, suites, type Entry, type Node } from '../../shared/documents/kinds.ts';
import type { Params, Present, Reading } from './config-present.ts';
import type { PlannedCall } from './planned-call.ts';

/* Needs and files of suites, by name. They are set after all suites of the document exist. */

interface Names {
  needs: readonly string[];
  files_from: string | readonly string[];
}

const none: Names = { needs: [], files_from: '' };

const namesIn = (entry: Entry): Names => ({ needs: entry.needs as readonly string[], files_from: filesFromIn(entry) });

const hasValues = (name: string): boolean => name.includes('$');

const textOf = (from: Names['files_from']): string => (typeof from === 'string' ? from : from.join(', '));

interface Suite {
  id: bigint;
  name: string;
  manual: boolean;
}

/** Reads the suites again, because earlier calls may have created some. */
export async function suitesNow(within: Reading['within'], { project_id: project = 0n }: Params): Promise<Suite[]> {
  return (await within(`GET ${suites.path}`, { project_id: project })) as Suite[];
}

const isGone = ({ action, section }: PlannedCall): boolean => action === 'delete' && section === suites.section;

/** Adds the calls that set needs, after the creation of all suites and before any deletion. */
export function withNeeds(
  within: Reading['within'],
  params: Params,
  present: Present,
  wanted: Node,
  calls: readonly PlannedCall[],
): PlannedCall[] {
  const put = async ({ at, entry }: Node, { needs, files_from: from }: Names): Promise<void> => {
    const ids = new Map((await suitesNow(within, params)).map(({ name, id }): [unknown, bigint] => [name, id]));
    const idOf = (name: unknown): string => String(ids.get(name) ?? '');
    const own = { ...params, suite_id: ids.get(entry.name) ?? 0n };
    const one = typeof from === 'string' ? from : '';
    const body = groupOf({
      needs: needs.map(idOf),
      files_from_id: hasValues(one) ? '' : idOf(one),
      files_from_name: hasValues(one) ? one : '',
      files_from: typeof from === 'string' ? [] : from.map((name) => (hasValues(name) ? name : idOf(name))),
    });
    await named(at, () => within(`PUT ${suites.path}/:suite_id`, own, body));
  };
  const before = new Map(present.children[suites.section]?.map(({ entry }) => [entry.name, namesIn(entry)]));
  const changes = (wanted.children[suites.section] ?? []).flatMap((node) => {
    const [from, to] = [before.get(node.entry.name ?? '') ?? none, namesIn(node.entry)];
    return isSame(from.needs, to.needs) && isSame(from.files_from, to.files_from) ? [] : [{ node, from, to }];
  });
  const changed = changes.map(({ node, from, to }, at): PlannedCall => ({
    action: 'change',
    section: suites.section,
    what: `suite ${node.entry.name as string | number}`,
    fields: [
      { name: 'needs', from: from.needs.join(', '), to: to.needs.join(', ') },
      { name: 'files_from', from: textOf(from.files_from), to: textOf(to.files_from) },
    ].filter((field) => field.from !== field.to),
    async run() {
      // One change alone could form a cycle with needs that a later change removes. So all needs are removed first.
      if (at === 0) for (const other of changes) if (other.from.needs.length > 0) await put(other.node, none);
      await put(node, to);
    },
  }));
  return changed.length === 0 ? [...calls] : suitesGoLast([...calls, ...changed]);
}

const order = (one: PlannedCall): number => (isGone(one) ? 2 : one.isLate ? 1 : 0);

/** Puts deleted suites last, and before them suites that stop being manual. By then nothing uses them. */
export function suitesGoLast(calls: readonly PlannedCall[]): PlannedCall[] {
  return calls.toSorted((a, b) => order(a) - order(b));
}

/** Puts each suite after the suites that need it, because it can be deleted only after them. */
export function needersFirst(gone: readonly Present[]): Present[] {
  const byName = new Map(gone.map((suite): [unknown, Present] => [suite.entry.name, suite]));
  const ordered = new Set<Present>();
  const visit = (suite: Present): void => {
    if (ordered.has(suite)) return;
    for (const name of namesIn(suite.entry).needs) {
      const needed = byName.get(name);
      if (needed) visit(needed);
    }
    ordered.add(suite);
  };
  for (const suite of gone) visit(suite);
  return [...ordered].toReversed();
}
