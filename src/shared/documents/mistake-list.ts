import { ApiError, type ErrorCode, type FieldErrors } from '../errors.ts';

/** By path, such as `suites[unit][command]`. The first mistake at a path counts. */
export class MistakeList {
  readonly #fields: FieldErrors = {};
  readonly #why = new Map<string, string>();

  /** `why` ends a sentence about the path. Without it, the code and the value suffice. */
  add(at: string, code: ErrorCode, why?: string): void {
    if (this.#fields[at]) return;
    this.#fields[at] = [code];
    if (why !== undefined) this.#why.set(at, why);
  }

  has(at: string): boolean {
    return this.#fields[at] !== undefined;
  }

  /** `placed` gives the path where something is written. Undefined if the mistake is none. */
  throwIfAny(placed: (at: string, code: ErrorCode | undefined) => string | undefined): void {
    const found = new MistakeList();
    for (const [at, [code]] of Object.entries(this.#fields)) {
      const place = placed(at, code);
      if (place !== undefined && code) found.add(place, code, this.#why.get(at));
    }
    if (Object.keys(found.#fields).length > 0) throw new DocumentError(found.#fields, found.#why);
  }
}

export class DocumentError extends ApiError {
  readonly why: ReadonlyMap<string, string>;

  constructor(fields: FieldErrors, why: ReadonlyMap<string, string>) {
    const { status, message } = ApiError.ofFields(fields);
    super('invalid_format');
    this.why = why;
    Object.assign(this, { fields, status, message });
  }
}

export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
