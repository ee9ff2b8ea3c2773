import type { Call } from '../api/call.ts';
import type { Database, Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { emptyGroup, type RawGroup } from '../../shared/records/raw.ts';
import { pathOf } from '../../shared/records/fields.ts';
import { createYield } from '../../shared/lib/event-loop.ts';
import { keyOf, named } from '../../shared/documents/document.ts';
import {
  areVariables,
  afterProject,
  beforeProject,
  isSame,
  projectFields,
  rawOf,
  strategies,
  suites,
  valueIn,
  type DocumentField,
  type Entry,
  type Kind,
  type ListedRecord,
  type Node,
  type Value,
} from '../../shared/documents/kinds.ts';
import { needersFirst, suitesGoLast, withNeeds } from './config-needs.ts';
import type { Once, Step } from './config-steps.ts';
import { withSuiteId, withSuiteNames } from './config-strategies.ts';
import { noteSource, sourcesOf } from './environment-variables.ts';

type Within = Call['within'];
type Params = Readonly<Record<string, bigint>>;
type Record_ = Readonly<Record<string, unknown>> & { id: bigint };

export interface Planning {
  db: Queries;
  within: Within;
  /** By name. The first of several with the same name counts. */
  dependencies: () => Promise<ReadonlyMap<string, bigint>>;
  /** Nothing is stored, so values from an environment were not sent. */
  isTrial?: boolean;
}

export function planningWith({ db, within, isTrial = false }: Omit<Planning, 'dependencies'>): Planning {
  const turn = createYield();
  const yieldingWithin: Within = async (...call) => {
    await turn();
    return within(...call);
  };
  let known: Promise<ReadonlyMap<string, bigint>> | undefined;
  const read = async (): Promise<ReadonlyMap<string, bigint>> => {
    const list = (await yieldingWithin('GET /dependencies', {})) as (Record_ & { name: string })[];
    return new Map(list.toReversed().map(({ name, id }) => [name, id]));
  };
  return { db, within: yieldingWithin, isTrial, dependencies: () => (known ??= read()) };
}

/** The project's row is locked from its step on: others also lock it before notifications and schedules. */
export async function runSteps(
  trx: Queries,
  database: Pick<Database, 'locked'>,
  projectId: bigint,
  steps: readonly Step[],
  holdFirst: () => Promise<unknown> = async () => {},
): Promise<Once[]> {
  const before = new Set(['rules', 'dependencies', ...beforeProject.map(({ section }) => section)]);
  const answers: Once[] = [];
  let isHeld = false;
  for (const step of steps) {
    if (!isHeld && !before.has(step.section)) {
      await holdFirst();
      await database.locked(trx.selectFrom('projects').select('id').where('id', '=', projectId), 'projects').execute();
      isHeld = true;
    }
    answers.push(await step.run());
  }
  return answers;
}

export async function planFor(planning: Planning, projectId: bigint, wanted: Node): Promise<Step[]> {
  const params = { project_id: projectId };
  let steps: Step[] = [];
  for (const kind of beforeProject) {
    const nodes = wanted.children[kind.section] ?? [];
    const own = await planKind(planning, kind, params, nodes, '');
    steps.push(...(kind === suites ? await withNeeds(planning.within, params, nodes, own) : own));
    if (kind === strategies && own.length > 0) steps = suitesGoLast(steps);
  }
  steps.push(...(await planProject(planning, params, wanted)));
  for (const kind of afterProject)
    steps.push(...(await planKind(planning, kind, params, wanted.children[kind.section] ?? [], '')));
  return steps;
}

async function planProject({ within }: Planning, params: Params, { entry }: Node): Promise<Step[]> {
  const record = (await within('GET /projects/:project_id', params)) as Record_;
  const changed = differing(projectFields, record, entry);
  if (changed.length === 0) return [];
  return [
    {
      action: 'change',
      section: 'project',
      what: 'project',
      fields: changed.map((field) => shownChange(field, record, entry)),
      run: () => named('', () => within('PUT /projects/:project_id', params, bodyFrom(changed, entry))).then(nothing),
    },
  ];
}

/** Deletions come first, because a new entry may reuse a name. */
async function planKind(
  planning: Planning,
  kind: Kind,
  params: Params,
  wanted: readonly Node[],
  inside: string,
): Promise<Step[]> {
  const { within } = planning;
  const { fields } = kind;
  const records = await recordsOf(planning, kind, params);
  const withKey = Map.groupBy(records.toReversed(), (record) => keyOf(kind, entryOf(fields, record)));
  const pairs = wanted.map((node): [Node, Record_ | undefined] => [node, withKey.get(keyOf(kind, node.entry))?.pop()]);
  const known = new Set(pairs.map(([, record]) => record));
  let left = records.filter((record) => !known.has(record));
  if (kind.isNameless) {
    // Without names, the remaining entries are matched in order and count as changed.
    const open = pairs.filter(([, record]) => record === undefined);
    for (const [at, pair] of open.entries()) pair[1] = left[at];
    left = left.slice(open.length);
  }
  const steps: Step[] = (kind === suites ? needersFirst(left) : left).map((record) => ({
    action: 'delete' as const,
    section: kind.section,
    what: `${kind.what} ${labelOf(kind, entryOf(fields, record))}${inside}`,
    fields: [],
    record: record.id,
    run: () =>
      named('', () => within(`DELETE ${kind.path}/:${kind.param}`, { ...params, [kind.param]: record.id })).then(
        nothing,
      ),
  }));
  for (const [node, record] of pairs)
    steps.push(
      ...(await (record
        ? planChange(planning, kind, params, node, record, inside)
        : planCreate(planning, kind, params, node, inside))),
    );
  return steps;
}

async function planChange(
  planning: Planning,
  kind: Kind,
  params: Params,
  node: Node,
  record: Record_,
  inside: string,
): Promise<Step[]> {
  const { within } = planning;
  const own = { ...params, [kind.param]: record.id };
  const changing = (fields: readonly DocumentField[]): Step => ({
    action: 'change',
    section: kind.section,
    what: `${kind.what} ${labelOf(kind, node.entry)}${inside}`,
    fields: fields.map((field) => shownChange(field, record, node.entry)),
    record: record.id,
    async run() {
      await named(node.at, async () => {
        const sent = kind === strategies ? await withSuiteId(within, own, node.entry) : node.entry;
        return within(`PUT ${kind.path}/:${kind.param}`, own, bodyFrom(fields, sent));
      });
      if (areVariables(kind)) await noteSource(planning.db, record.id, shown(node.entry.from_env));
      return {};
    },
  });
  const isLate = ({ name }: DocumentField): boolean => kind === suites && name === 'manual' && !node.entry.manual;
  const { first = [], later = [] } = Object.groupBy(differing(kind.fields, record, node.entry), (field) =>
    isLate(field) ? 'later' : 'first',
  );
  return [
    ...(first.length === 0 ? [] : [changing(first)]),
    ...(await planParts(planning, kind, own, node)),
    ...(later.length === 0 ? [] : [{ ...changing(later), isLate: true }]),
  ];
}

async function planCreate(planning: Planning, kind: Kind, params: Params, node: Node, inside: string): Promise<Step[]> {
  const { within, isTrial } = planning;
  const { fields } = kind;
  const isAway = isTrial && areVariables(kind) && node.entry.from_env !== '';
  const entry = isAway ? { content: '', ...node.entry } : node.entry;
  // A variable that keeps its value must have one.
  const missing = fields.find(({ name }) => entry[name] === undefined);
  if (missing) throw new ApiError('is_blank', `${node.at}[${missing.name}]`);
  const step: Step = {
    action: 'create',
    section: kind.section,
    what: `${kind.what} ${labelOf(kind, node.entry)}${inside}`,
    fields: [],
    async run() {
      const made = await named(node.at, async () => {
        const sent = kind === strategies ? await withSuiteId(within, params, entry) : entry;
        return within(`POST ${kind.path}`, params, bodyFrom(fields, sent));
      });
      const { id, secret, url } = made as Record_ & { url?: string };
      if (areVariables(kind)) await noteSource(planning.db, id, shown(node.entry.from_env));
      for (const part of await planParts(planning, kind, { ...params, [kind.param]: id }, node)) await part.run();
      // For a variable, `secret` is only a flag.
      return typeof secret === 'string' ? { secret, ...(url !== undefined && { url }) } : {};
    },
  };
  return [step];
}

async function planParts(planning: Planning, kind: Kind, own: Params, node: Node): Promise<Step[]> {
  const inside = ` of ${kind.what} ${labelOf(kind, node.entry)}`;
  const steps: Step[] = [];
  for (const part of kind.children ?? [])
    steps.push(...(await planKind(planning, part, own, node.children[part.section] ?? [], inside)));
  if (kind === suites) steps.push(...(await planDependencies(planning, own, node, inside)));
  return steps;
}

async function planDependencies(
  { within, dependencies }: Planning,
  own: Params,
  node: Node,
  inside: string,
): Promise<Step[]> {
  const path = `${suites.path}/:suite_id/dependencies` as const;
  const attached = (await within(`GET ${path}`, own)) as (Record_ & { name: string })[];
  const wanted = new Set(node.dependencies);
  const present = new Set(attached.map(({ name }) => name));
  const steps: Step[] = attached
    .filter(({ name }) => !wanted.has(name))
    .map(({ id, name }) => ({
      action: 'delete' as const,
      section: 'dependencies',
      what: `dependency ${name}${inside}`,
      fields: [],
      run: () =>
        named(node.at, () => within(`DELETE ${path}/:dependency_id`, { ...own, dependency_id: id })).then(nothing),
    }));
  const missing = node.dependencies.filter((name) => !present.has(name));
  const known = missing.length === 0 ? new Map<string, bigint>() : await dependencies();
  for (const name of missing) {
    const found = known.get(name);
    if (found === undefined)
      throw ApiError.inWords(
        'not_found',
        `${node.at}[dependencies]`,
        `You have no dependency ${JSON.stringify(name)}.`,
      );
    const body = Object.assign(emptyGroup(), { dependency_id: String(found) });
    steps.push({
      action: 'create',
      section: 'dependencies',
      what: `dependency ${name}${inside}`,
      fields: [],
      run: () => named(node.at, () => within(`POST ${path}`, own, body)).then(nothing),
    });
  }
  return steps;
}

const nothing = (): Once => ({});

export async function recordsOf(
  { db, within }: Pick<Planning, 'db' | 'within'>,
  kind: Kind,
  params: Params,
): Promise<Record_[]> {
  const list = (await within(`GET ${kind.path}`, params)) as Record_[];
  if (areVariables(kind) && list.length > 0) {
    const sources = await sourcesOf(db, { projectId: params.project_id ?? 0n, suiteId: params.suite_id });
    return list.map((record) => ({ ...record, from_env: sources.get(record.id) ?? '' }));
  }
  if (!kind.isShort) return list;
  const whole: Record_[] = [];
  for (const { id } of list)
    whole.push((await within(`GET ${kind.path}/:${kind.param}`, { ...params, [kind.param]: id })) as Record_);
  return kind === strategies ? withSuiteNames(within, params, whole) : whole;
}

export function entryOf(fields: readonly DocumentField[], record: object): Entry {
  return Object.fromEntries(fields.map((field) => [field.name, valueIn(record, field)]));
}

function differing(fields: readonly DocumentField[], record: object, entry: Entry): DocumentField[] {
  return fields.filter(
    (field) => !field.isApart && entry[field.name] !== undefined && !isSame(valueIn(record, field), entry[field.name]),
  );
}

export function bodyFrom(fields: readonly DocumentField[], entry: Entry): RawGroup {
  const body = emptyGroup();
  for (const { name, sent, isDocumentOnly, isApart } of fields) {
    const value = entry[name];
    if (value === undefined || isDocumentOnly || isApart) continue;
    const [first = '', second] = pathOf(sent);
    const raw = typeof value === 'object' ? rawOf(value) : String(value);
    if (second === undefined) body[first] = raw;
    else {
      const group = (body[first] as RawGroup | undefined) ?? emptyGroup();
      group[second] = raw;
      body[first] = group;
    }
  }
  return body;
}

/** The value is shown only if it was no secret before, and is none now. */
function shownChange(field: DocumentField, record: object, entry: Entry): { name: string; from: string; to: string } {
  const isOpen = 'secret' in record && record.secret === false && entry.secret === false;
  if (field.name === 'content' && !isOpen) return { name: 'content', from: '', to: '' };
  return { name: field.name, from: shown(valueIn(record, field)), to: shown(entry[field.name]) };
}

function shown(value: Value | undefined): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  const texts = value.filter((one) => typeof one === 'string');
  const records = value.filter((one) => typeof one === 'object');
  const lines = records.flatMap((one) => Object.entries(one).map(([name, stated]) => `${name}: ${textOf(stated)}`));
  return records.length === 0 ? texts.join(', ') : lines.join('\n');
}

function textOf(stated: ListedRecord[string]): string {
  return typeof stated === 'object' ? JSON.stringify(stated) : String(stated);
}

function labelOf({ key }: Kind, entry: Entry): string {
  return key
    .map((name) => shown(entry[name]))
    .join(' ')
    .trim();
}
