/** What every CI system is translated to. `write.ts` makes a file of it. Each system has a module of its own. */

/** Comments in front of it: what could not be carried over, at its place. */
export interface Noted {
  notes: string[];
}

export interface Rule {
  subject: string;
  operator: string;
  value: string;
}

export interface Step extends Noted {
  name: string;
  /** Blank for a place that has only comments. */
  command: string;
  when?: 'failed' | 'always';
}

export interface Variable {
  name: string;
  content: string;
}

export interface Service extends Noted {
  name: string;
  image: string;
  command?: string;
  ready_command?: string;
  variables: (Variable | { name: string; from: string })[];
}

export interface Suite extends Noted {
  name: string;
  /** The simple fields, by their names in the file. */
  fields: Record<string, string | number | boolean | readonly string[]>;
  steps: Step[];
  services: Service[];
  rules: Rule[];
  variables: Variable[];
  cache: string[];
  artifacts: string[];
  needs: string[];
}

export interface Schedule {
  cron: string;
  commit_ref?: string;
  variables?: Record<string, string>;
}

export interface Parameter {
  name: string;
  type: string;
  description: string;
  default: string;
  required: boolean;
  options: string[];
}

/** Of one file, or of several together. */
export interface Translation extends Noted {
  suites: Suite[];
  schedules: Schedule[];
  parameters: Parameter[];
  /** Names of secret variables, each with the words that say what to set. */
  secrets: Map<string, string>;
  /** What the owner of the project sets, because a file in a repository cannot. */
  toSet: Set<string>;
}

export function emptySuite(name: string): Suite {
  const lists = { steps: [], services: [], rules: [], variables: [], cache: [], artifacts: [], needs: [] };
  return { name, notes: [], fields: {}, ...lists };
}

export function emptyTranslation(): Translation {
  return { notes: [], suites: [], schedules: [], parameters: [], secrets: new Map(), toSet: new Set() };
}

export type Path = readonly (string | number)[];

/** A file of another system, as parsed. */
export interface Source {
  path: string;
  value: unknown;
  lines: ReadonlyMap<string, number>;
}

export interface Lost {
  file: string;
  line?: number;
  /** As the file names it. */
  what: string;
  why: string;
}

const longestLabel = 120;

/** Counts what is carried over, and notes what is not. Everything is counted once. */
export class Tally {
  kept = 0;
  readonly lost: Lost[] = [];
  readonly #source: Source;

  constructor(source: Source) {
    this.#source = source;
  }

  keep(count = 1): void {
    this.kept += count;
  }

  /** `place` gets the comment. A scalar `value` is shown with its key. */
  lose(place: Noted, path: Path, value: unknown, why: string): void {
    const { path: file, lines } = this.#source;
    const label = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${part}`)).join('');
    const shown = isScalar(value) ? `: ${value}` : '';
    const what = `${label.replace(/^\./, '')}${shown}`.slice(0, longestLabel).toWellFormed();
    const line = path
      .map((_, at) => lines.get(JSON.stringify(path.slice(0, path.length - at))))
      .find((one) => one !== undefined);
    this.lost.push({ file, ...(line !== undefined && { line }), what, why });
    place.notes.push(`Not carried over: ${what} (${file}${line === undefined ? '' : `:${line}`}): ${why}.`);
  }
}

export type Table = Readonly<Record<string, unknown>>;

export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function tableOf(value: unknown): Table {
  return isTable(value) ? value : {};
}

export function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

/** Blank for a list, a table or nothing. */
export function textOf(value: unknown): string {
  return isScalar(value) ? String(value) : '';
}

/** A value or a list of them, also nested, as texts. Anything else is left out. */
export function textsOf(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsOf);
  return isScalar(value) ? [String(value)] : [];
}

export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : value === undefined || value === null ? [] : [value];
}

export interface Reading<Target> {
  tally: Tally;
  target: Target;
  path: Path;
}

/** What becomes of the value of a key: it is carried over, or the reason why not. Undefined if it counts elsewhere. */
export type Outcome = 'kept' | 'elsewhere' | { lost: string };
export type Keys<Target> = Readonly<Record<string, string | ((value: unknown, reading: Reading<Target>) => Outcome)>>;

export const kept = (): Outcome => 'kept';
export const elsewhere = (): Outcome => 'elsewhere';
export const lost = (why: string): Outcome => ({ lost: why });
/** Of a function of parts.ts or matrix.ts, which returns why something cannot be said. */
export const unless = (problem: string | undefined): Outcome => (problem === undefined ? 'kept' : { lost: problem });

/** One outcome for all of these keys, separated by blanks. */
export const each = <Of>(names: string, outcome: Of): Record<string, Of> =>
  Object.fromEntries(names.split(' ').map((name) => [name, outcome]));

/** The first text. */
export const firstOf = (value: unknown): string | undefined => textsOf(value)[0];

/** What a module returns for a file. */
export interface Read {
  translation: Translation;
  tally: Tally;
}

/** Reads a table by a table: each key has a function, or the words why it cannot be carried over. */
export function readKeys<Target extends Noted>(
  table: Table,
  keys: Keys<Target>,
  { tally, target, path }: Reading<Target>,
): void {
  for (const [name, value] of Object.entries(table)) {
    const key = Object.hasOwn(keys, name) ? keys[name] : 'this key is not known here';
    const at = [...path, name];
    const outcome = typeof key === 'function' ? key(value, { tally, target, path: at }) : { lost: key ?? '' };
    if (outcome === 'kept') tally.keep();
    else if (outcome !== 'elsewhere') tally.lose(target, at, value, outcome.lost);
  }
}
