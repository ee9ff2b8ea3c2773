/**
 * What the command line reads of an answer, as data: the types below follow from it, and a test compares it with the
 * server's OpenAPI document. A server may answer more; what is not described here is kept for `--json` and ignored
 * otherwise.
 */
export type FieldKind = 'string' | 'string?' | 'number' | 'number|null' | 'string|null' | 'boolean' | 'strings';

export type Shape = Readonly<Record<string, FieldKind | ShapeOf>>;
interface ShapeOf {
  readonly each: Shape;
}

interface Kinds {
  string: string;
  /** Left out by some answers. */
  'string?': string | undefined;
  number: number;
  'number|null': number | null;
  'string|null': string | null;
  boolean: boolean;
  strings: readonly string[];
}

export type Shaped<S extends Shape> = {
  readonly [Name in keyof S]: S[Name] extends FieldKind
    ? Kinds[S[Name]]
    : S[Name] extends { readonly each: infer Each extends Shape }
      ? readonly Shaped<Each>[]
      : never;
};

/** A call of the API. `list` answers are arrays. */
export interface Operation<S extends Shape = Shape, Many extends boolean = boolean> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** The fields that the command line may send: in the body, and for GET in the query. */
  readonly sends: readonly string[];
  readonly answers: S;
  readonly isList: Many;
}

type Written = `${Operation['method']} /${string}`;

function split(text: Written): Pick<Operation, 'method' | 'path'> {
  const [method, path = ''] = text.split(' ');
  return { method: method as Operation['method'], path };
}

export function one<const S extends Shape>(text: Written, answers: S, sends: string[] = []): Operation<S, false> {
  return { ...split(text), answers, sends, isList: false };
}

export function list<const S extends Shape>(text: Written, answers: S, sends: string[] = []): Operation<S, true> {
  return { ...split(text), answers, sends, isList: true };
}

export type AnswerOf<O> =
  O extends Operation<infer S, infer Many> ? (Many extends true ? Shaped<S>[] : Shaped<S>) : never;
