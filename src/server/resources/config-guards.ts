import type { Queries } from '../db/open.ts';
import { areAmong } from '../../shared/domain/limited-refs.ts';
import { keyOf } from '../../shared/documents/document.ts';
import { takenByAny } from '../../shared/domain/files-from.ts';
import { matrixOf } from '../../shared/documents/entry-checks.ts';
import { filesFromIn, isSame, schedules, type Entry, type Node } from '../../shared/documents/kinds.ts';
import type { Present } from './config-present.ts';
import { limitsOf } from './guarded-suites.ts';

/*
 * Anyone who can push to the default branch can write this file, so some settings stay whatever it contains. Only the
 * owner limits variables and deploys to refs, and names approvers. If a suite's variables are limited to refs, only a
 * file of these refs changes what runs there.
 */

interface Guarding {
  db: Queries;
  projectId: bigint;
  own: readonly string[];
}

/** `kept` contains log lines about the settings that stay. */
export async function leavingGuarded(
  guarding: Guarding,
  present: Present,
  wanted: Node,
): Promise<{ wanted: Node; kept: string[] }> {
  const suites = byName(present, 'suites');
  const kept: string[] = [];
  const dropped = new Set<unknown>();
  const nodes: Node[] = [];
  for (const node of wanted.children.suites ?? []) {
    const { name } = node.entry;
    const known = suites.get(name);
    const isFit = await fits(guarding, known?.id);
    if (!known && !isFit) {
      dropped.add(name);
      kept.push(`The suite ${name as string} is not created: it would get variables that are limited to other refs.`);
    } else if (!known) nodes.push(node);
    else nodes.push(await suiteOf(guarding, node, known, { isFit, kept }));
  }
  const ways = byName(present, 'deploy_strategies');
  const left = (wanted.children.deploy_strategies ?? []).filter(({ entry }) => !dropped.has(entry.suite));
  const children = {
    ...wanted.children,
    variables: await variablesOf(guarding, present, wanted),
    suites: nodes.map((node) => withoutNeeds(node, dropped)),
    deploy_strategies: left.map((node) => {
      const now = ways.get(node.entry.name)?.entry;
      return now ? withValues(node, now, ['refs', 'approval', 'approvers']) : node;
    }),
  };
  return { wanted: await withoutValues(guarding, present, { ...wanted, children }, kept), kept };
}

/** Values of requests reach all builds, so they stay if any variable is limited to refs that are not the file's. */
async function withoutValues(guarding: Guarding, present: Present, wanted: Node, kept: string[]): Promise<Node> {
  const known = new Map(present.children.schedules?.map((one) => [keyOf(schedules, one.entry), one.entry]));
  const valuesNow = (node: Node): Entry => known.get(keyOf(schedules, node.entry)) ?? { variables: {} };
  const changing = (wanted.children.schedules ?? []).filter(
    (node) => !isSame(node.entry.variables, valuesNow(node).variables),
  );
  const isChanged = !isSame(wanted.entry.parameters, present.entry.parameters);
  if ((changing.length === 0 && !isChanged) || (await fits(guarding, 'all'))) return wanted;
  kept.push(
    'Parameters and variables of schedules stay unchanged: builds get variables that are limited to other refs.',
  );
  const left = wanted.children.schedules?.map((node) => withValues(node, valuesNow(node), ['variables'])) ?? [];
  return { ...withValues(wanted, present.entry, ['parameters']), children: { ...wanted.children, schedules: left } };
}

function byName({ children }: Present, section: string): ReadonlyMap<unknown, Present> {
  return new Map(children[section]?.map((one) => [one.entry.name, one]));
}

/** True if the file may change what a suite runs. */
async function fits({ db, projectId, own }: Guarding, suite: bigint | 'all' | undefined): Promise<boolean> {
  for (const refs of await limitsOf(db, projectId, suite)) if (!(await areAmong(own, refs))) return false;
  return true;
}

/** The document's columns that determine what a suite runs. */
const running = ['command', 'steps', 'image', 'services', 'files_from', 'matrix', 'matrix_include'] as const;

async function suiteOf(
  guarding: Guarding,
  node: Node,
  present: Present,
  { isFit, kept }: { isFit: boolean; kept: string[] },
): Promise<Node> {
  const { entry: now } = present;
  const gated = withValues(node, now, ['approvers']);
  const children = { ...gated.children, variables: await variablesOf(guarding, present, node) };
  if (isFit) return { ...gated, children };
  const dependencies = present.dependencies.map(({ name }) => name);
  const isAnother =
    running.some((name) => !isSame(node.entry[name], now[name])) ||
    !isSame(node.dependencies.toSorted(), dependencies.toSorted());
  if (isAnother)
    kept.push(
      `What runs in the suite ${now.name as string} stays unchanged: it gets variables that are limited to other refs.`,
    );
  return { ...withValues(gated, now, running), children, dependencies };
}

/** Variables keep their limits. If a variable is limited to other refs, it also keeps its value. */
async function variablesOf({ own }: Guarding, present: Present, { children }: Node): Promise<readonly Node[]> {
  const known = byName(present, 'variables');
  const kept = (children.variables ?? []).map(async (variable): Promise<Node> => {
    const now = known.get(variable.entry.name)?.entry;
    if (!now) return variable;
    const isFit = await areAmong(own, now.refs as readonly string[]);
    return withValues(variable, now, isFit ? ['refs'] : ['refs', 'secret', 'content']);
  });
  return Promise.all(kept);
}

function withValues(node: Node, now: Entry, names: readonly string[]): Node {
  const values = names.flatMap((name) => (now[name] === undefined ? [] : [[name, now[name]] as const]));
  return { ...node, entry: { ...node.entry, ...Object.fromEntries(values) } };
}

function withoutNeeds(node: Node, dropped: ReadonlySet<unknown>): Node {
  const { needs } = node.entry;
  const left = (needs as readonly string[]).filter((name) => !dropped.has(name));
  const from = filesFromIn(node.entry);
  const matrix = matrixOf(node.entry) ?? { matrix: [], matrix_include: [], matrix_exclude: [] };
  const isLeft = (one: string): boolean => takenByAny({ from: one, matrix }).isDisjointFrom(dropped);
  const files_from = typeof from === 'string' ? (isLeft(from) ? from : '') : from.filter(isLeft);
  return { ...node, entry: { ...node.entry, needs: left, files_from } };
}
