import { isTable, tableOf, textsOf, type Table } from './model.ts';

export const reference = '!reference';

/** A job takes these from `default`, or from the top of the file. */
const inherited = 'image services cache before_script after_script artifacts tags retry timeout interruptible'.split(
  ' ',
);

/** What a file extends and refers to. Each job is merged once, and references are put in so often only. */
export class Templates {
  readonly #file: Table;
  readonly #merged = new Map<string, Table | undefined>();
  #room = 10_000;

  constructor(file: Table) {
    this.#file = file;
  }

  /** With all that applies to it. Undefined if something is missing. */
  whole(name: string): Table | undefined {
    const own = this.#extended(name);
    if (!own) return undefined;
    const file = this.#file;
    const top = Object.fromEntries(inherited.flatMap((key) => (file[key] === undefined ? [] : [[key, file[key]]])));
    const wanted = tableOf(own.inherit).default;
    const isOff = (key: string): boolean => wanted === false || (Array.isArray(wanted) && !wanted.includes(key));
    const usual = Object.entries({ ...top, ...tableOf(file.default) });
    const taken = Object.fromEntries(usual.filter(([key]) => inherited.includes(key) && !isOff(key)));
    return this.#referenced({ ...taken, ...own }, 0) as Table;
  }

  /** A cycle ends in nothing. */
  #extended(name: string): Table | undefined {
    const own = this.#file[name];
    if (this.#merged.has(name) || !isTable(own)) return this.#merged.get(name);
    this.#merged.set(name, undefined);
    let merged: Table = {};
    for (const base of new Set(textsOf(own.extends))) {
      const inner = this.#extended(base);
      if (!inner) return undefined;
      merged = deepMerged(merged, inner);
    }
    const { extends: _, ...rest } = deepMerged(merged, own);
    this.#merged.set(name, rest);
    return rest;
  }

  /** `!reference [.setup, script]` is what is there. */
  #referenced(value: unknown, level: number): unknown {
    if (typeof value !== 'object' || value === null) return value;
    this.#room -= 1;
    if (level > mostLevels || this.#room < 0) return undefined;
    if (Array.isArray(value)) return value.map((one) => this.#referenced(one, level + 1));
    const { [reference]: target, ...others } = value as Table;
    if (target === undefined)
      return Object.fromEntries(Object.entries(others).map(([key, one]) => [key, this.#referenced(one, level + 1)]));
    const [job = '', ...keys] = textsOf(target);
    return this.#referenced(
      keys.reduce<unknown>((at, key) => tableOf(at)[key], this.#extended(job)),
      level + 1,
    );
  }
}

const mostLevels = 20;

function deepMerged(base: Table, over: Table): Table {
  const merged = Object.entries(over).map(([key, value]) => {
    const before = Object.hasOwn(base, key) ? base[key] : undefined;
    return [key, isTable(value) && isTable(before) ? deepMerged(before, value) : value] as const;
  });
  return { ...base, ...Object.fromEntries(merged) };
}
