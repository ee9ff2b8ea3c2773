import type { Queries } from '../db/open.ts';
import { areAmong } from '../../shared/domain/limited-refs.ts';
import {
  beforeProject,
  isSame,
  strategies,
  suites,
  type Entry,
  type Kind,
  type Node,
} from '../../shared/documents/kinds.ts';
import { entryOf, recordsOf, type Planning } from './config-plan.ts';
import { limitsOf } from './guarded-suites.ts';

/*
 * Everyone who can push to the default branch writes this file. So some settings stay whatever it contains. Only the
 * owner limits variables and deploys to refs, and names approvers. If a suite's variables are limited to refs, only a
 * file of these refs changes what runs there.
 */

interface Guarding {
  db: Queries;
  planning: Planning;
  projectId: bigint;
  own: readonly string[];
}

type Params = Readonly<Record<string, bigint>>;
type Present = ReadonlyMap<unknown, { id: bigint; now: Entry }>;

/** `kept` are lines for the log about settings that stay. */
export async function leavingGuarded(guarding: Guarding, wanted: Node): Promise<{ wanted: Node; kept: string[] }> {
  const params = { project_id: guarding.projectId };
  const present = await presentOf(guarding, suites, params);
  const kept: string[] = [];
  const dropped = new Set<unknown>();
  const nodes: Node[] = [];
  for (const node of wanted.children.suites ?? []) {
    const { name } = node.entry;
    const known = present.get(name);
    const isFit = await fits(guarding, known?.id);
    if (!known && !isFit) {
      dropped.add(name);
      kept.push(`The suite ${name as string} is not made: it would get variables that are limited to other refs.`);
    } else if (!known) nodes.push(node);
    else nodes.push(await suiteOf(guarding, node, { ...known, isFit, kept }));
  }
  const ways = await presentOf(guarding, strategies, params);
  const left = (wanted.children.deploy_strategies ?? []).filter(({ entry }) => !dropped.has(entry.suite));
  const children = {
    ...wanted.children,
    variables: await variablesOf(guarding, params, wanted),
    suites: nodes.map((node) => withoutNeeds(node, dropped)),
    deploy_strategies: left.map((node) => {
      const now = ways.get(node.entry.name)?.now;
      return now ? withValues(node, now, ['refs', 'approval', 'approvers']) : node;
    }),
  };
  return { wanted: { ...wanted, children }, kept };
}

async function presentOf({ planning }: Guarding, kind: Kind, params: Params): Promise<Present> {
  const records = await recordsOf(planning, kind, params);
  const entries = records.map((record) => ({ id: record.id, now: entryOf(kind.fields, record) }));
  return new Map(entries.map((one) => [one.now.name, one]));
}

/** True if the file may decide what runs in a suite. */
async function fits({ db, projectId, own }: Guarding, suiteId: bigint | undefined): Promise<boolean> {
  for (const refs of await limitsOf(db, projectId, suiteId)) if (!(await areAmong(own, refs))) return false;
  return true;
}

/** In a document, the columns that decide what runs. */
const running = ['command', 'steps', 'image', 'services', 'files_from', 'matrix', 'matrix_include'] as const;

async function suiteOf(
  guarding: Guarding,
  node: Node,
  { id, now, isFit, kept }: { id: bigint; now: Entry; isFit: boolean; kept: string[] },
): Promise<Node> {
  const own = { project_id: guarding.projectId, suite_id: id };
  const gated = withValues(node, now, ['approvers']);
  const children = { ...gated.children, variables: await variablesOf(guarding, own, node) };
  if (isFit) return { ...gated, children };
  const path = `${suites.path}/:suite_id/dependencies` as const;
  const attached = (await guarding.planning.within(`GET ${path}`, own)) as { name: string }[];
  const dependencies = attached.map(({ name }) => name);
  const isAnother =
    running.some((name) => !isSame(node.entry[name], now[name])) ||
    !isSame(node.dependencies.toSorted(), dependencies.toSorted());
  if (isAnother)
    kept.push(
      `What runs in the suite ${now.name as string} stays as it is: it gets variables that are limited to other refs.`,
    );
  return { ...withValues(gated, now, running), children, dependencies };
}

/** Variables keep their limits, and one that is limited to other refs also its content. */
async function variablesOf(guarding: Guarding, params: Params, node: Node): Promise<readonly Node[]> {
  const kind = node.children.variables && kindOf(params);
  if (!kind) return [];
  const present = await presentOf(guarding, kind, params);
  const kept = (node.children.variables ?? []).map(async (variable): Promise<Node> => {
    const now = present.get(variable.entry.name)?.now;
    if (!now) return variable;
    const isFit = await areAmong(guarding.own, now.refs as readonly string[]);
    return withValues(variable, now, isFit ? ['refs'] : ['refs', 'secret', 'content']);
  });
  return Promise.all(kept);
}

const kindOf = (params: Params): Kind | undefined =>
  ('suite_id' in params ? (suites.children ?? []) : beforeProject).find(({ section }) => section === 'variables');

function withValues(node: Node, now: Entry, names: readonly string[]): Node {
  const values = names.flatMap((name) => (now[name] === undefined ? [] : [[name, now[name]] as const]));
  return { ...node, entry: { ...node.entry, ...Object.fromEntries(values) } };
}

function withoutNeeds(node: Node, dropped: ReadonlySet<unknown>): Node {
  const { needs, files_from: from } = node.entry;
  const left = (needs as readonly string[]).filter((name) => !dropped.has(name));
  return { ...node, entry: { ...node.entry, needs: left, ...(dropped.has(from) && { files_from: '' }) } };
}
