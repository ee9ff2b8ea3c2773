import type { ErrorCode } from '../errors.ts';
import { bytes, most } from '../domain/bounds.ts';
import { quoted } from './mistake-list.ts';

/* A suite may take fields from `defaults`, `templates` and other suites. They are written out here, so nothing else knows of them. */

export type Path = readonly (string | number)[];
export type Table = Readonly<Record<string, unknown>>;

export interface Resolved {
  /** As it was written. */
  table: unknown;
  /** Every suite has all of its fields, and what it took them from is gone. */
  plain: unknown;
  /** Where each inherited field is written, by its path in `plain` as JSON. */
  origins: ReadonlyMap<string, Origin>;
  /** The paths of suites that may lack fields, because something that they extend is not known. */
  doubted: ReadonlySet<string>;
  mistakes: readonly { at: string; code: ErrorCode; why: string }[];
  /** Undefined if they are not known here. */
  included: readonly IncludedFile[] | undefined;
  /** It includes files, and they are not known here. */
  isPartial: boolean;
}

/** Only its defaults and templates count, and those of the file itself win. */
export interface IncludedFile {
  path: string;
  table: Table;
  lines: ReadonlyMap<string, number>;
}

/** The variables of a suite are those of its own name. */
export const neverHandedOn: readonly string[] = ['name', 'variables'];

export interface Origin {
  path: Path;
  /** The path as text. */
  at: string;
}

interface Field extends Origin {
  value: unknown;
}
type Fields = ReadonlyMap<string, Field>;

interface Source extends Origin {
  table: Table;
}

export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

export function resolve(table: unknown, included?: readonly IncludedFile[]): Resolved {
  return new Resolver(table, included).resolved;
}

function includesAny(table: unknown): boolean {
  return isTable(table) && Array.isArray(table.include) && table.include.length > 0;
}

class Resolver {
  readonly resolved: Resolved;
  readonly #origins = new Map<string, Origin>();
  readonly #doubted = new Set<string>();
  readonly #mistakes: { at: string; code: ErrorCode; why: string }[] = [];
  readonly #templates = new Map<string, Source>();
  readonly #suites = new Map<string, Source>();
  readonly #known = new Map<Source, { fields: Fields; isDoubted: boolean }>();
  /** So any name may be right, and any suite may have more fields. */
  readonly #isPartial: boolean;

  constructor(table: unknown, included?: readonly IncludedFile[]) {
    this.#isPartial = included === undefined && includesAny(table);
    const { defaults: _, templates: __, ...others } = isTable(table) ? table : {};
    const files = [
      ...(included ?? []).map((file, at): Source => ({
        at: `include[${at}]`,
        path: ['include', at],
        table: file.table,
      })),
      { at: '', path: [], table: isTable(table) ? table : {} },
    ];
    let defaults: Fields = new Map();
    for (const file of files) {
      for (const [name, template] of this.#templatesIn(file)) this.#templates.set(name, template);
      defaults = over(fieldsOf(this.#tableIn(file, 'defaults')), defaults);
    }
    let plain: unknown = isTable(table) ? others : table;
    if (isTable(plain) && Array.isArray(plain.suites) && plain.suites.length <= most.suitesInDocument)
      plain = { ...plain, suites: this.#suitesIn(plain.suites, defaults) };
    const [origins, doubted, mistakes] = [this.#origins, this.#doubted, this.#mistakes];
    this.resolved = { table, plain, origins, doubted, mistakes, included, isPartial: this.#isPartial };
  }

  #refuse(at: string, why: string, code: ErrorCode = 'invalid_format'): void {
    this.#mistakes.push({ at, code, why });
  }

  #tableIn({ at, path, table }: Source, name: string): Source {
    const { [name]: value = {} } = table;
    const inside = { at: at === '' ? name : `${at}[${name}]`, path: [...path, name] };
    if (isTable(value)) return { ...inside, table: value };
    this.#refuse(inside.at, mustBeTable);
    return { ...inside, table: {} };
  }

  #templatesIn(file: Source): [name: string, template: Source][] {
    const all = this.#tableIn(file, 'templates');
    const names = Object.keys(all.table);
    if (names.length > most.templatesInDocument) {
      this.#refuse(all.at, `has more than ${most.templatesInDocument} entries`);
      return [];
    }
    return names.map((name) => [name, this.#tableIn(all, name)]);
  }

  #suitesIn(list: readonly unknown[], defaults: Fields): unknown[] {
    const sources = list.map((table, at): Source | undefined => {
      if (!isTable(table)) return undefined;
      const isNamed = typeof table.name === 'string' && table.name.length <= longestName;
      const source = { at: `suites[${isNamed ? (table.name as string) : at}]`, path: ['suites', at], table };
      if (isNamed && !this.#suites.has(table.name as string)) this.#suites.set(table.name as string, source);
      return source;
    });
    for (const source of this.#templates.values()) this.#fieldsOf(source, []);
    let room = bytes.body;
    const written = sources.map((source, at) => {
      if (!source) return list[at];
      const { fields, isDoubted } = this.#fieldsOf(source, []);
      if (isDoubted || this.#isPartial) this.#doubted.add(source.at);
      const whole = over(fields, defaults);
      const own = whole.entries().map(([name, { value, ...origin }]): [string, unknown] => {
        const isOwn = origin.path[0] === 'suites' && origin.path[1] === at;
        if (!isOwn) this.#origins.set(JSON.stringify([...source.path, name]), origin);
        return [name, value];
      });
      const suite = Object.fromEntries(own);
      if (room > 0) room -= JSON.stringify(suite).length;
      return suite;
    });
    if (room > 0) return written;
    this.#refuse('suites', `have more than ${bytes.body / 1024} kB together with all that they inherit`);
    return [];
  }

  /** Its own fields, and those that it extends. */
  #fieldsOf(source: Source, way: readonly Source[]): { fields: Fields; isDoubted: boolean } {
    const known = this.#known.get(source);
    if (known) return known;
    const own = fieldsOf(source);
    const parent = this.#parentOf(source, [...way, source]);
    const before = parent === 'none' || parent === 'wrong' ? undefined : this.#fieldsOf(parent, [...way, source]);
    const found = {
      fields: before ? over(own, before.fields) : own,
      isDoubted: parent === 'wrong' || before?.isDoubted === true,
    };
    this.#known.set(source, found);
    return found;
  }

  #parentOf({ at, table }: Source, way: readonly Source[]): Source | 'none' | 'wrong' {
    const { extends: name = '' } = table;
    if (name === '') return 'none';
    const where = `${at}[extends]`;
    if (typeof name !== 'string') return (this.#refuse(where, 'must be text'), 'wrong');
    // A suite may extend the template of its own name.
    const parent = this.#templates.get(name) ?? this.#suites.get(name);
    if (!parent) {
      if (this.#isPartial) return 'none';
      this.#refuse(where, `names ${quoted(name)}, which is no template and no suite of the file`, 'not_found');
      return 'wrong';
    }
    if (!way.includes(parent)) return parent;
    const circle = [...way.slice(way.indexOf(parent)), parent];
    this.#refuse(where, `is a cycle: ${circle.map((one) => quoted(labelOf(one))).join(' extends ')}`);
    return 'wrong';
  }
}

const mustBeTable = 'must be a table';

/** Messages about an entry with a longer name use its number. */
const longestName = 255;

function labelOf({ path: [section, name], table }: Source): unknown {
  if (section === 'include') return '…'; // another repository's
  return section === 'suites' ? table.name : name;
}

function fieldsOf({ at, path, table }: Source): Fields {
  const { extends: _, ...fields } = table;
  const field = ([name, value]: [string, unknown]): [string, Field] => [
    name,
    { value, at: `${at}[${name}]`, path: [...path, name] },
  ];
  return new Map(Object.entries(fields).map(field));
}

const run: readonly string[] = ['command', 'steps'];

function over(own: Fields, inherited: Fields): Fields {
  const runs = run.some((name) => own.has(name));
  const added = inherited
    .entries()
    .filter(([name]) => !own.has(name) && !neverHandedOn.includes(name) && !(runs && run.includes(name)));
  return new Map([...own, ...added]);
}
