import { most } from '../domain/bounds.ts';
import { wrongFiles, type TakingSuite } from '../domain/files-from.ts';
import { mostVariantsOf } from '../domain/matrix.ts';
import type { Parameter } from '../records/parameter.ts';
import { matrixOf } from './entry-checks.ts';
import { filesFromIn, strategies, suites, type Entry, type Node } from './kinds.ts';
import { quoted, type MistakeList } from './mistake-list.ts';

/** Rules about several entries: suites and deploy strategies name suites. */
export function checkRelations(document: Node, mistakes: MistakeList): void {
  const nodes = document.children[suites.section] ?? [];
  const byName = new Map(nodes.map(({ entry }) => [nameOf(entry), entry]));
  const taking = new Map(nodes.map(({ entry }) => [nameOf(entry), takingOf(entry)]));
  for (const node of nodes) checkNeeds(node, byName, taking, mistakes);
  checkCircles(nodes, byName, mistakes);
  checkVariantsOfAll(nodes, mistakes);
  checkParameters(document, nodes, mistakes);
  for (const { at, entry } of document.children[strategies.section] ?? []) {
    const { suite = '', strategy_type: type } = entry;
    if (type !== 'suite' || typeof suite !== 'string' || suite === '') continue;
    const found = byName.get(suite);
    if (!found) mistakes.add(`${at}[suite]`, 'not_found', `names ${quoted(suite)}, which is not a suite of the file`);
    else if (found.manual !== true)
      mistakes.add(
        `${at}[suite]`,
        'invalid_format',
        `names ${quoted(suite)}, which is not manual: write manual = true`,
      );
  }
}

/** A secret cannot be asked for. */
function checkParameters({ entry, children }: Node, nodes: readonly Node[], mistakes: MistakeList): void {
  const variables = [children, ...nodes.map((suite) => suite.children)].flatMap((parts) => parts.variables ?? []);
  const secrets = new Set(variables.flatMap((one) => (one.entry.secret === false ? [] : [one.entry.name])));
  const parameters = (entry.parameters ?? []) as readonly Parameter[];
  for (const [at, { name }] of parameters.entries())
    if (secrets.has(name))
      mistakes.add(`parameters[${at}][name]`, 'invalid_format', 'is the name of a secret variable');
}

type ByName = ReadonlyMap<string, Entry>;

const nameOf = ({ name }: Entry): string => `${name as string | number}`;

const needsOf = ({ needs }: Entry): readonly string[] => (Array.isArray(needs) ? (needs as readonly string[]) : []);

const takingOf = (entry: Entry): TakingSuite => ({
  needs: needsOf(entry),
  from: filesFromIn(entry),
  matrix: matrixOf(entry) ?? { matrix: [], matrix_include: [], matrix_exclude: [] },
});

function checkNeeds(
  { entry, at }: Node,
  byName: ByName,
  taking: ReadonlyMap<string, TakingSuite>,
  mistakes: MistakeList,
): void {
  const needs = needsOf(entry);
  const missing = needs.filter((needed) => !byName.has(needed));
  const refuse = (field: string, code: 'invalid_format' | 'not_found', why: string): void =>
    mistakes.add(`${at}[${field}]`, code, why);
  if (missing.length > 0)
    refuse('needs', 'not_found', `names ${missing.map(quoted).join(', ')}, which is not a suite of the file`);
  if (needs.length > most.neededSuites)
    refuse('needs', 'invalid_format', `names more than ${most.neededSuites} suites`);
  if (new Set(needs).size < needs.length) refuse('needs', 'invalid_format', 'names a suite twice');
  const wrong = wrongFiles(takingOf(entry), taking);
  if (wrong) refuse('files_from', wrong.code, wrong.why);
}

/** Each cycle is reported at the first of its suites. */
function checkCircles(nodes: readonly Node[], byName: ByName, mistakes: MistakeList): void {
  const told = new Set<string>();
  for (const { entry, at } of nodes) {
    const circle = told.has(nameOf(entry)) ? undefined : circleFrom(nameOf(entry), byName);
    if (!circle) continue;
    for (const name of circle) told.add(name);
    mistakes.add(`${at}[needs]`, 'invalid_format', `is a cycle: ${circle.map(quoted).join(' needs ')}`);
  }
}

function circleFrom(name: string, byName: ByName): string[] | undefined {
  const before = new Map<string, string>();
  const open = [name];
  for (const one of open)
    for (const needed of needsOf(byName.get(one) ?? {})) {
      if (needed === name) {
        const way = [name];
        for (let at: string | undefined = one; at !== undefined && at !== name; at = before.get(at)) way.unshift(at);
        return [name, ...way];
      }
      if (before.has(needed)) continue;
      before.set(needed, one);
      open.push(needed);
    }
  return undefined;
}

/** One request builds all combinations of all suites. */
function checkVariantsOfAll(nodes: readonly Node[], mistakes: MistakeList): void {
  const counts = nodes.map(({ entry }) => mostVariantsOf(matrixOf(entry) ?? { matrix: [], matrix_include: [] }));
  const count = counts.reduce((sum, one) => sum + one, 0);
  if (count <= most.variantsOfProject) return;
  const why = `have ${count} variants together, and at most ${most.variantsOfProject} are allowed`;
  mistakes.add(suites.section, 'is_reserved', why);
}
