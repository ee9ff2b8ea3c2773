import { ApiError, type ErrorCode } from '../errors.ts';
import { addressesOf, wrongAddresses, type Addresses } from '../records/addresses.ts';
import { columnName, isBlank, type Field } from '../records/fields.ts';
import { most } from '../domain/bounds.ts';
import { readUntrustedJson } from '../lib/untrusted-json.ts';
import { checkEntry } from './entry-checks.ts';
import {
  areVariables,
  includeField,
  projectFields,
  rawOf,
  sections,
  suites,
  type DocumentField,
  type Entry,
  type Kind,
  type Node,
  type Value,
} from './kinds.ts';
import { MistakeList } from './mistake-list.ts';
import { find } from './places.ts';
import { checkRelations } from './relations.ts';
import { isTable, neverHandedOn, resolve, type Resolved, type Table } from './templates.ts';

/** Throws all mistakes at once, each under its path. */
export function readDocument(text: string): Node {
  return readTable(resolve(parsed(text)));
}

/** A file in a repository need not describe the project itself, and has no environment. */
export function readTable(resolved: Resolved, isInRepository = false): Node {
  const { table, plain } = resolved;
  const mistakes = new MistakeList();
  for (const { at, code, why } of resolved.mistakes) mistakes.add(at, code, why);
  const room = { entries: most.entriesInDocument };
  const fields = isInRepository
    ? [...projectFields.map((field) => ({ ...field, isRequired: false })), includeField]
    : projectFields;
  if (!isInRepository && isTable(table) && table.include !== undefined)
    mistakes.add('include', 'invalid_format', 'is only for a file in a repository');
  const node = readNode(plain, { at: '', mistakes, fields, children: sections, room });
  const wrong = isInRepository ? {} : wrongAddresses(addressesIn(node.entry), { isNew: true });
  for (const [name, [code]] of Object.entries(wrong)) if (code) mistakes.add(name, code);
  checkRelations(node, mistakes);
  if (isInRepository) refuseSources(node, mistakes);
  checkTemplates(isTable(table) ? table : {}, mistakes, room);
  for (const [at, file] of (resolved.included ?? []).entries()) {
    for (const name of Object.keys(file.table))
      if (name !== 'defaults' && name !== 'templates') mistakes.add(`include[${at}][${name}]`, 'invalid_format');
    checkTemplates(file.table, mistakes, room, `include[${at}]`);
  }
  mistakes.throwIfAny((at, code) => (isDoubted(resolved, at, code) ? undefined : find(resolved, at).at));
  return node;
}

/** Whether the mistake may be none with what a suite extends, which is not known here. */
function isDoubted({ doubted, isPartial }: Resolved, at: string, code: ErrorCode | undefined): boolean {
  const [, suite = '', field = ''] = /^(.*)\[(command|root|files_from|matrix_\w+)\]$/.exec(at) ?? [];
  if (doubted.has(suite)) return field !== 'command' || code === 'is_blank';
  return isPartial && code === 'invalid_format' && /^deploy_strategies\[.*\]\[suite\]$/.test(at);
}

/** Also those that no suite extends. */
function checkTemplates(
  { defaults, templates }: Table,
  mistakes: MistakeList,
  room: { entries: number },
  file = '',
): void {
  const inside = (name: string): string => (file === '' ? name : `${file}[${name}]`);
  const fields = suites.fields
    .filter(({ name }) => !neverHandedOn.includes(name))
    .map((field) => ({ ...field, isRequired: false }));
  const children = suites.children?.filter(({ section }) => !neverHandedOn.includes(section)) ?? [];
  const check = (at: string, whole: Table): void => {
    const { extends: _, ...table } = whole;
    for (const name of neverHandedOn)
      if (table[name] !== undefined)
        mistakes.add(`${at}[${name}]`, 'invalid_format', 'is never handed on: write it in the suite');
    readNode(table, { at, mistakes, fields, children, room, hasDependencies: true });
  };
  if (isTable(defaults)) {
    check(inside('defaults'), defaults);
    if (defaults.extends !== undefined)
      mistakes.add(
        `${inside('defaults')}[extends]`,
        'invalid_format',
        'is not known: only suites and templates extend others',
      );
  }
  const all = isTable(templates) ? Object.entries(templates) : [];
  if (all.length > most.templatesInDocument) return;
  for (const [name, template] of all) if (isTable(template)) check(`${inside('templates')}[${name}]`, template);
}

/** A file in a repository has no user's environment. */
function refuseSources(document: Node, mistakes: MistakeList): void {
  const nodes = [document, ...(document.children[suites.section] ?? [])];
  for (const { at, entry } of nodes.flatMap(({ children }) => children.variables ?? []))
    if (entry.from_env !== '')
      mistakes.add(`${at}[from_env]`, 'invalid_format', 'has no meaning in a repository: write keep = true');
}

function addressesIn({ repository_url: repository, clone_url: clone }: Entry): Partial<Addresses> {
  return {
    ...(typeof repository === 'string' && { repository_url: repository }),
    ...(typeof clone === 'string' && { clone_url: clone }),
  };
}

function parsed(text: string): unknown {
  try {
    return readUntrustedJson(text);
  } catch {
    throw new ApiError('invalid_format', 'document');
  }
}

interface Reading {
  at: string;
  mistakes: MistakeList;
  fields: readonly DocumentField[];
  children: readonly Kind[];
  kind?: Kind;
  room: { entries: number };
  hasDependencies?: boolean;
}

function readNode(value: unknown, reading: Reading): Node {
  const { at, mistakes, fields, children, kind, room, hasDependencies = kind === suites } = reading;
  room.entries -= 1;
  if (room.entries < 0) throw new ApiError('invalid_format', 'document');
  const pathOf = (name: string): string => (at === '' ? name : `${at}[${name}]`);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    mistakes.add(at === '' ? 'document' : at, 'invalid_format', 'must be a table');
    return { entry: {}, at, children: {}, dependencies: [] };
  }
  const given = value as Record<string, unknown>;
  const entry: Record<string, Value> = {};
  const isVariable = kind !== undefined && areVariables(kind);
  const known = new Set([...fields.map(({ name }) => name), ...children.map(({ section }) => section)]);
  if (isVariable) known.add('keep');
  if (hasDependencies) known.add('dependencies');
  for (const name of Object.keys(given)) if (!known.has(name)) mistakes.add(pathOf(name), 'invalid_format');
  let isSound = true;
  for (const { name, isRequired, fallback, read: readList, field, isApart, takesList } of fields) {
    if (readList && given[name] !== undefined) {
      Object.assign(entry, readRecords(readList, name, given[name], pathOf(name), mistakes));
      continue;
    }
    const isContent = isVariable && name === 'content';
    if (isContent && given.content === undefined && isKept(given)) continue;
    if (isContent && given.content !== undefined && !mayHold(given)) mistakes.add(pathOf(name), 'invalid_format');
    const isNeeded = isRequired || isContent;
    const read = given[name] === undefined ? (isNeeded ? undefined : fallback) : valueOf(given[name]);
    if (read === undefined) mistakes.add(pathOf(name), given[name] === undefined ? 'is_blank' : 'invalid_format');
    else {
      entry[name] = read;
      // Needs are names of suites, which are checked together (relations.ts).
      const isWrong = takesList
        ? typeof read !== 'string' && !Array.isArray(read)
        : isApart && Array.isArray(read) !== Array.isArray(fallback);
      const code = isWrong ? 'invalid_format' : field && !isApart && mistakeIn(field, isRequired, read);
      if (code) {
        mistakes.add(pathOf(name), code);
        isSound = false;
      }
    }
  }
  // Except for suites, these rules rely on fields of the right form.
  if (kind && (isSound || kind === suites)) checkEntry(kind, entry, at, mistakes);
  Object.assign(entry, addressesOf(addressesIn(entry)));
  if (isVariable && !isSource(given.from_env)) mistakes.add(pathOf('from_env'), 'invalid_format');
  const dependencies = hasDependencies && given.dependencies !== undefined ? valueOf(given.dependencies) : [];
  if (!Array.isArray(dependencies)) mistakes.add(pathOf('dependencies'), 'invalid_format');
  const nodes = children.map((child) => {
    const list = given[child.section] ?? [];
    const { most: bound } = child;
    if (!Array.isArray(list)) mistakes.add(pathOf(child.section), 'invalid_format');
    else if (list.length > bound)
      mistakes.add(
        pathOf(child.section),
        child === suites ? 'invalid_format' : 'is_reserved',
        `has ${list.length} entries, and at most ${bound} are allowed`,
      );
    const read = (Array.isArray(list) ? list : []).map((item: unknown, index) => {
      const inner = `${pathOf(child.section)}[${nameOf(item, child) ?? index}]`;
      const { fields: own, children: parts = [] } = child;
      return readNode(item, { at: inner, mistakes, fields: own, children: parts, kind: child, room });
    });
    refuseDuplicates(read, child, mistakes);
    return [child.section, read] as const;
  });
  return {
    entry,
    at,
    children: Object.fromEntries(nodes),
    dependencies: Array.isArray(dependencies) ? (dependencies as string[]) : [],
  };
}

/** The error that the API would answer, or undefined. */
function mistakeIn(field: Field<unknown>, isRequired: boolean, value: Value): ErrorCode | undefined {
  const raw = typeof value === 'object' ? rawOf(value) : String(value);
  if (raw === null || (isBlank(raw) && !field.takesBlank)) return isRequired ? 'is_blank' : undefined;
  try {
    field.parse(raw);
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return Object.values(error.fields).flat()[0];
  }
}

/** A reference to an environment only shows where the content came from. */
function isKept({ keep, from_env: source = '' }: Record<string, unknown>): boolean {
  return (keep === true) !== (source !== '');
}

/** A secret value must come from the environment of the user who applies it. */
function mayHold({ content, keep, secret, from_env: source = '' }: Record<string, unknown>): boolean {
  return typeof content === 'string' && keep !== true && (secret === false || source !== '');
}

function readRecords(
  read: NonNullable<DocumentField['read']>,
  name: string,
  given: unknown,
  at: string,
  mistakes: MistakeList,
): Entry {
  try {
    return { [name]: read(given) };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    for (const [inside, [code = 'invalid_format']] of Object.entries(error.fields))
      mistakes.add(inside.startsWith('[') ? `${at}${inside}` : at, code);
    return {};
  }
}

/** Texts, numbers, flags, and lists of texts. Undefined for anything else. */
function valueOf(given: unknown): Value | undefined {
  if (typeof given === 'string' || typeof given === 'number' || typeof given === 'boolean') return given;
  if (!Array.isArray(given)) return undefined;
  return given.every((item) => typeof item === 'string') ? given : undefined;
}

function isSource(given: unknown): boolean {
  return given === undefined || (typeof given === 'string' && given.length <= 255 && !/[\0\n\r=]/.test(given));
}

/** Longer names are refused. Messages about such an entry use its number. */
const longestName = 255;

function nameOf(item: unknown, { key, isNameless }: Kind): string | undefined {
  const name = typeof item === 'object' && item !== null ? (item as Record<string, unknown>)[key[0] ?? ''] : undefined;
  return !isNameless && typeof name === 'string' && name.length <= longestName ? name : undefined;
}

export function keyOf({ key }: Kind, entry: Entry): string {
  return JSON.stringify(key.map((name) => entry[name]));
}

function refuseDuplicates(nodes: readonly Node[], kind: Kind, mistakes: MistakeList): void {
  if (kind.isNameless) return;
  const seen = new Set<string>();
  for (const { entry, at } of nodes) {
    const key = keyOf(kind, entry);
    if (seen.has(key)) mistakes.add(`${at}[${kind.key[0] ?? ''}]`, 'already_exists');
    seen.add(key);
  }
}

interface WithVariables {
  variables?: Record<string, unknown>[];
}

/** The stored form of a valid document, without values from an environment. */
export function withoutValues(text: string): string {
  const document = JSON.parse(text) as WithVariables & { suites?: WithVariables[] };
  for (const { variables = [] } of [document, ...(document.suites ?? [])])
    for (const variable of variables) if ((variable.from_env ?? '') !== '') delete variable.content;
  return JSON.stringify(document);
}

/** Adds the entry to the name of a refused field: documents have names, request bodies have identifiers. */
export async function named<T>(at: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError) || at === '' || error.status === 401) throw error;
    const fields = Object.entries(error.fields).map(([name, codes]) => {
      return [name === 'generic' ? at : `${at}[${columnName(name).replace(/_id$/, '')}]`, codes] as const;
    });
    throw Object.assign(ApiError.ofFields(Object.fromEntries(fields)), { detail: error.detail });
  }
}
