import { ApiError, type ErrorCode, type FieldErrors } from '../errors.ts';

/** The mistakes of a document, by their paths, such as `suites[unit][command]`. The first one at a path counts. */
export class MistakeList {
  readonly #fields: FieldErrors = {};
  readonly #why = new Map<string, string>();

  /** `why` is the end of a sentence about the path. Without it, the code and the value say enough. */
  add(at: string, code: ErrorCode, why?: string): void {
    if (this.#fields[at]) return;
    this.#fields[at] = [code];
    if (why !== undefined) this.#why.set(at, why);
  }

  has(at: string): boolean {
    return this.#fields[at] !== undefined;
  }

  throwIfAny(): void {
    if (Object.keys(this.#fields).length > 0) throw new DocumentError(this.#fields, this.#why);
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

/** A value of the file in a sentence. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? '';
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
