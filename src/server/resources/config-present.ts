import type { Call } from '../api/call.ts';
import type { Queries } from '../db/open.ts';
import {
  areVariables,
  isDocumented,
  notifications,
  projectFields,
  sections,
  strategies,
  suites,
  valueIn,
  type DocumentField,
  type Entry,
  type Kind,
} from '../../shared/documents/kinds.ts';
import { sourcesOf } from './environment-variables.ts';

/** A record of the project as an entry of a document, with the records inside it. */
export interface Present {
  id: bigint;
  entry: Entry;
  children: Readonly<Record<string, readonly Present[]>>;
  dependencies: readonly { id: bigint; name: string }[];
}

export type Params = Readonly<Record<string, bigint>>;

export interface Reading {
  db: Queries;
  within: Call['within'];
}

/** Reads through the routes that a user would call, so a token needs the scopes for all parts of the project. */
export async function readProject(reading: Reading, id: bigint): Promise<Present> {
  const params = { project_id: id };
  const record = (await reading.within('GET /projects/:project_id', params)) as object;
  const children = await partsOf(reading, sections, params);
  return { id, entry: entryOf(projectFields, record), children, dependencies: [] };
}

async function partsOf(reading: Reading, kinds: readonly Kind[], params: Params): Promise<Present['children']> {
  const children: Record<string, Present[]> = {};
  for (const kind of kinds) {
    const entries = [];
    for (const { id, ...record } of await recordsOf(reading, kind, params, children)) {
      const own = { ...params, [kind.param]: id };
      const dependencies =
        kind === suites ? await reading.within(`GET ${suites.path}/:suite_id/dependencies`, own) : [];
      entries.push({
        id,
        entry: entryOf(kind.fields, record),
        children: await partsOf(reading, kind.children ?? [], own),
        dependencies: dependencies as Present['dependencies'],
      });
    }
    children[kind.section] = entries;
  }
  return children;
}

type Listed = Readonly<Record<string, unknown>> & { id: bigint };

async function recordsOf(
  { db, within }: Reading,
  kind: Kind,
  params: Params,
  before: Present['children'],
): Promise<Listed[]> {
  const list = (await within(`GET ${kind.path}`, params)) as Listed[];
  if (areVariables(kind) && list.length > 0) {
    const sources = await sourcesOf(db, { projectId: params.project_id ?? 0n, suiteId: params.suite_id });
    return list.map((record) => ({ ...record, from_env: sources.get(record.id) ?? '' }));
  }
  if (kind === notifications)
    return list
      .filter(isDocumented)
      .map((record) => ({ ...record, options: { url: '', to: '', ...(record.options as object) } }));
  if (kind !== strategies) return list;
  const names = new Map(before[suites.section]?.map(({ id, entry }) => [id, entry.name]));
  const whole: Listed[] = [];
  for (const { id } of list) {
    const record = (await within(`GET ${kind.path}/:${kind.param}`, { ...params, [kind.param]: id })) as Listed;
    const { suite_id: suite = 0n, ...options } = record.options as { suite_id?: bigint };
    whole.push({ ...record, options: { ...noOptions, ...options, suite_id: names.get(suite) ?? '' } });
  }
  return whole;
}

/** A document has the options of all types, but a record has only its type's options. */
const noOptions = { repository_url: '', clone_url: '', local_branch: '', remote_branch: '' };

function entryOf(fields: readonly DocumentField[], record: object): Entry {
  return Object.fromEntries(fields.map((field) => [field.name, valueIn(record, field)]));
}
