import type { RouteName } from '../api/call.ts';
import type { Database, Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { emptyGroup, groupOf, type RawGroup } from '../../shared/records/raw.ts';
import { pathOf } from '../../shared/records/fields.ts';
import { createYield } from '../../shared/lib/event-loop.ts';
import { keyOf, named } from '../../shared/documents/document.ts';
import {
  areVariables,
  afterProject,
  beforeProject,
  isSame,
  isTexts,
  projectFields,
  rawOf,
  strategies,
  suites,
  type DocumentField,
  type Entry,
  type Kind,
  type ListedRecord,
  type Node,
  type Value,
} from '../../shared/documents/kinds.ts';
import { needersFirst, suitesGoLast, suitesNow, withNeeds } from './config-needs.ts';
import type { Params, Present, Reading } from './config-present.ts';
import type { PlannedCall } from './planned-call.ts';
import { noteSource } from './environment-variables.ts';

export interface Planning extends Reading {
  /** Dependencies by name. If several have the same name, the first counts. */
  dependencies: () => Promise<ReadonlyMap<string, bigint>>;
  /** Set for a dry run. Nothing is stored, so the client did not send values from its environment. */
  isTrial?: boolean;
}

export function planningWith({ db, within, isTrial = false }: Omit<Planning, 'dependencies'>): Planning {
  const turn = createYield();
  const yieldingWithin: Reading['within'] = async (...call) => {
    await turn();
    return within(...call);
  };
  let known: Promise<ReadonlyMap<string, bigint>> | undefined;
  const read = async (): Promise<ReadonlyMap<string, bigint>> => {
    const list = (await yieldingWithin('GET /dependencies', {})) as { id: bigint; name: string }[];
    return new Map(list.toReversed().map(({ name, id }) => [name, id]));
  };
  return { db, within: yieldingWithin, isTrial, dependencies: () => (known ??= read()) };
}

/**
 * The project's row is locked before the first call that changes the project or a later table. Other transactions also
 * lock it before notifications and schedules.
 */
export async function runCalls(
  trx: Queries,
  database: Pick<Database, 'locked'>,
  projectId: bigint,
  calls: readonly PlannedCall[],
  holdFirst: () => Promise<unknown> = async () => {},
): Promise<void> {
  const before = new Set(['rules', 'dependencies', ...beforeProject.map(({ section }) => section)]);
  let isHeld = false;
  for (const one of calls) {
    if (!isHeld && !before.has(one.section)) {
      await holdFirst();
      await database.locked(trx.selectFrom('projects').select('id').where('id', '=', projectId), 'projects').execute();
      isHeld = true;
    }
    await one.run();
  }
}

export function planFor(planning: Planning, present: Present, wanted: Node): PlannedCall[] {
  const params = { project_id: present.id };
  const plan = (kind: Kind): PlannedCall[] => planKind(planning, kind, params, present, wanted);
  let calls: PlannedCall[] = [];
  for (const kind of beforeProject) {
    const own = plan(kind);
    calls.push(...(kind === suites ? withNeeds(planning.within, params, present, wanted, own) : own));
    if (kind === strategies && own.length > 0) calls = suitesGoLast(calls);
  }
  return [...calls, ...planProject(planning, params, present, wanted), ...afterProject.flatMap(plan)];
}

function planProject({ within }: Planning, params: Params, present: Present, { entry }: Node): PlannedCall[] {
  const changed = differing(projectFields, present.entry, entry);
  if (changed.length === 0) return [];
  return [
    {
      action: 'change',
      section: 'project',
      what: 'project',
      fields: changed.map((field) => shownChange(field, present.entry, entry)),
      run: () => named('', () => within('PUT /projects/:project_id', params, bodyFrom(changed, entry))),
    },
  ];
}

type Parts = Pick<Present, 'children' | 'dependencies'>;
const noParts: Parts = { children: {}, dependencies: [] };

/** Deletions come first, because a new entry may reuse the name of a deleted record. */
function planKind(
  planning: Planning,
  kind: Kind,
  params: Params,
  present: Parts,
  wanted: Node,
  inside = '',
): PlannedCall[] {
  const records = present.children[kind.section] ?? [];
  const withKey = Map.groupBy(records.toReversed(), ({ entry }) => keyOf(kind, entry));
  const nodes = wanted.children[kind.section] ?? [];
  const pairs = nodes.map((node): [Node, Present | undefined] => [node, withKey.get(keyOf(kind, node.entry))?.pop()]);
  const known = new Set(pairs.map(([, record]) => record));
  let left = records.filter((record) => !known.has(record));
  if (kind.isNameless) {
    // Entries without names are matched in order, and each match counts as a change.
    const open = pairs.filter(([, record]) => record === undefined);
    for (const [at, pair] of open.entries()) pair[1] = left[at];
    left = left.slice(open.length);
  }
  const gone = (kind === suites ? needersFirst(left) : left).map(({ id, entry }): PlannedCall => ({
    action: 'delete',
    section: kind.section,
    what: `${kind.what} ${labelOf(kind, entry)}${inside}`,
    fields: [],
    record: id,
    run: () => named('', () => planning.within(`DELETE ${kind.path}/:${kind.param}`, { ...params, [kind.param]: id })),
  }));
  const put = pairs.flatMap(([node, record]) =>
    record
      ? planChange(planning, kind, { ...params, [kind.param]: record.id }, node, record, inside)
      : planCreate(planning, kind, params, node, inside),
  );
  return [...gone, ...put];
}

function planChange(
  planning: Planning,
  kind: Kind,
  own: Params,
  node: Node,
  record: Present,
  inside: string,
): PlannedCall[] {
  const changing = (fields: readonly DocumentField[] = [], isLate = false): PlannedCall[] => {
    if (fields.length === 0) return [];
    const planned: PlannedCall = {
      action: 'change',
      section: kind.section,
      what: `${kind.what} ${labelOf(kind, node.entry)}${inside}`,
      fields: fields.map((field) => shownChange(field, record.entry, node.entry)),
      record: record.id,
      isLate,
      async run() {
        await send(planning, `PUT ${kind.path}/:${kind.param}`, own, kind, { node, fields });
        if (areVariables(kind)) await noteSource(planning.db, record.id, shown(node.entry.from_env));
      },
    };
    return [planned];
  };
  const { first, later } = Object.groupBy(differing(kind.fields, record.entry, node.entry), ({ name }) =>
    kind === suites && name === 'manual' && !node.entry.manual ? 'later' : 'first',
  );
  return [...changing(first), ...planParts(planning, kind, own, record, node), ...changing(later, true)];
}

function planCreate(planning: Planning, kind: Kind, params: Params, node: Node, inside: string): PlannedCall[] {
  const { fields } = kind;
  const isAway = planning.isTrial && areVariables(kind) && node.entry.from_env !== '';
  const entry = isAway ? { content: '', ...node.entry } : node.entry;
  // A new variable has no value to keep, so the document must give one.
  const missing = fields.find(({ name }) => entry[name] === undefined);
  if (missing) throw new ApiError('is_blank', `${node.at}[${missing.name}]`);
  const planned: PlannedCall = {
    action: 'create',
    section: kind.section,
    what: `${kind.what} ${labelOf(kind, node.entry)}${inside}`,
    fields: [],
    async run() {
      const made = await send(planning, `POST ${kind.path}`, params, kind, { node: { ...node, entry }, fields });
      const { id, secret, url } = made as { id: bigint; secret?: unknown; url?: string };
      if (areVariables(kind)) await noteSource(planning.db, id, shown(node.entry.from_env));
      for (const part of planParts(planning, kind, { ...params, [kind.param]: id }, noParts, node)) await part.run();
      // In a variable, `secret` is only a flag.
      if (typeof secret === 'string') planned.once = { secret, ...(url !== undefined && { url }) };
    },
  };
  return [planned];
}

function planParts(planning: Planning, kind: Kind, own: Params, present: Parts, node: Node): PlannedCall[] {
  const inside = ` of ${kind.what} ${labelOf(kind, node.entry)}`;
  const parts = (kind.children ?? []).flatMap((part) => planKind(planning, part, own, present, node, inside));
  return kind === suites ? [...parts, ...planDependencies(planning, own, present, node, inside)] : parts;
}

function planDependencies(
  { within, dependencies }: Planning,
  own: Params,
  present: Parts,
  node: Node,
  inside: string,
): PlannedCall[] {
  const path = `${suites.path}/:suite_id/dependencies` as const;
  const planned = (action: 'create' | 'delete', name: string, call: () => Promise<unknown>): PlannedCall => ({
    action,
    section: 'dependencies',
    what: `dependency ${name}${inside}`,
    fields: [],
    run: () => named(node.at, call),
  });
  const attached = new Set(present.dependencies.map(({ name }) => name));
  return [
    ...present.dependencies
      .filter(({ name }) => !node.dependencies.includes(name))
      .map(({ id, name }) =>
        planned('delete', name, () => within(`DELETE ${path}/:dependency_id`, { ...own, dependency_id: id })),
      ),
    ...node.dependencies
      .filter((name) => !attached.has(name))
      .map((name) =>
        planned('create', name, async () => {
          const found = (await dependencies()).get(name);
          const message = `You have no dependency ${JSON.stringify(name)}.`;
          if (found === undefined) throw ApiError.inWords('not_found', 'dependencies', message);
          return within(`POST ${path}`, own, groupOf({ dependency_id: String(found) }));
        }),
      ),
  ];
}

/** Replaces the suite's name in a deploy strategy by its ID. An earlier call may have created the suite. */
async function send(
  { within }: Planning,
  route: RouteName,
  params: Params,
  kind: Kind,
  { node: { at, entry }, fields }: { node: Node; fields: readonly DocumentField[] },
): Promise<unknown> {
  return named(at, async () => {
    const { suite = '' } = entry;
    if (kind !== strategies || suite === '') return within(route, params, bodyFrom(fields, entry));
    const found = (await suitesNow(within, params)).find(({ name }) => name === suite);
    if (!found) throw new ApiError('not_found', 'suite');
    if (!found.manual) throw new ApiError('invalid_format', 'suite');
    return within(route, params, bodyFrom(fields, { ...entry, suite: String(found.id) }));
  });
}

function differing(fields: readonly DocumentField[], present: Entry, wanted: Entry): DocumentField[] {
  return fields.filter(
    ({ name, isApart, fallback, isImplied }) =>
      !isApart &&
      wanted[name] !== undefined &&
      !isSame(present[name], wanted[name]) &&
      !(isSame(wanted[name], fallback) && isImplied?.(present)),
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

/** A variable's value is shown only if it was and stays no secret. */
function shownChange({ name }: DocumentField, present: Entry, wanted: Entry): PlannedCall['fields'][number] {
  const isHidden = name === 'content' && !(present.secret === false && wanted.secret === false);
  return isHidden ? { name, from: '', to: '' } : { name, from: shown(present[name]), to: shown(wanted[name]) };
}

function shown(value: Value | undefined): string {
  if (typeof value !== 'object' || value === null) return String(value ?? '');
  if (isTexts(value))
    return Object.entries(value)
      .map((pair) => pair.join('='))
      .join('\n');
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
