import { ApiError } from '../errors.ts';
import { Digits } from './fields.ts';

/** The same for forms, multipart and JSON. Groups have no prototype, so that no name in them is special. */
export type Raw = string | Digits | boolean | null | Raw[] | RawGroup | typeof repeated;
export interface RawGroup {
  [name: string]: Raw;
}

/** A field that was sent more than once: it is unclear which value is meant. */
export const repeated = Symbol('sent more than once');

export const mostFields = 1000;
const deepest = 5;
const refusedNames = new Set(['__proto__', 'constructor', 'prototype']);

export function unreadable(): ApiError {
  return new ApiError('invalid_format');
}

export function isGroup(raw: Raw | undefined): raw is RawGroup {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw) && !(raw instanceof Digits);
}

export function emptyGroup(): RawGroup {
  return Object.create(null) as RawGroup;
}

export function groupOf(values: Record<string, Raw>): RawGroup {
  return Object.assign(emptyGroup(), values);
}

/** With nested brackets: `options[url]`, `ids[]`. */
export class RawCollector {
  readonly root = emptyGroup();
  #count = 0;

  add(name: string, value: string): void {
    this.#count += 1;
    if (this.#count > mostFields) throw unreadable();
    const [first = '', ...rest] = splitName(name);
    this.#put(this.root, first, rest, value);
  }

  #put(group: RawGroup, name: string, rest: string[], value: string): void {
    const present = group[name];
    const [next] = rest;
    if (next === undefined) {
      group[name] = present === undefined ? value : repeated;
    } else if (next === '' && rest.length === 1) {
      if (present === undefined) group[name] = [value];
      else if (Array.isArray(present)) present.push(value);
      else group[name] = repeated;
    } else if (present === undefined || isGroup(present)) {
      const inner = present ?? emptyGroup();
      group[name] = inner;
      this.#put(inner, next, rest.slice(1), value);
    } else {
      group[name] = repeated;
    }
  }
}

function splitName(name: string): string[] {
  const match = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name);
  if (!match) throw unreadable();
  const [, first = '', brackets = ''] = match;
  const path = [first, ...Array.from(brackets.matchAll(/\[([^[\]]*)\]/g), ([, inner = '']) => inner)];
  if (path.length > deepest || path.slice(0, -1).includes('') || path.some((part) => refusedNames.has(part))) {
    throw unreadable();
  }
  return path;
}

/** If the text has more names than its value, one occurred twice. */
export function fromJson(value: unknown, names?: number): RawGroup {
  const budget = { fields: mostFields, names: 0 };
  const raw = convert(value, 1, budget);
  if (!isGroup(raw) || (names !== undefined && names !== budget.names)) throw unreadable();
  return raw;
}

function convert(value: unknown, depth: number, budget: { fields: number; names: number }): Raw {
  budget.fields -= 1;
  if (budget.fields < 0 || depth > deepest + 1) throw unreadable();
  if (typeof value === 'string' || typeof value === 'boolean' || value === null || value instanceof Digits)
    return value;
  if (Array.isArray(value)) return value.map((item) => convert(item, depth + 1, budget));
  if (typeof value !== 'object') throw unreadable();
  const group = emptyGroup();
  for (const [name, item] of Object.entries(value)) {
    if (refusedNames.has(name)) throw unreadable();
    budget.names += 1;
    group[name] = convert(item, depth + 1, budget);
  }
  return group;
}
