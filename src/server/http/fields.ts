import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { isBlank, pathOf, type FieldSet, type ValuesOf } from '../../shared/records/fields.ts';
import { isGroup, repeated, type Raw, type RawGroup } from '../../shared/records/raw.ts';

export interface Reading<F extends FieldSet> {
  values: Partial<ValuesOf<F>>;
  errors: FieldErrors;
}

/** Reports all errors. A field that was not sent gets its fallback on creation, and is omitted on a change. */
export function readFields<F extends FieldSet>(fields: F, sent: RawGroup, purpose: 'create' | 'change'): Reading<F> {
  const values: Record<string, unknown> = {};
  const errors: FieldErrors = {};
  for (const [name, field] of Object.entries(fields)) {
    const raw = valueAt(sent, pathOf(name));
    if (raw === undefined && purpose === 'change') continue;
    if (raw === undefined || raw === null || (isBlank(raw) && !field.takesBlank)) {
      if (field.required) errors[name] = ['is_blank'];
      else values[name] = field.fallback;
      continue;
    }
    try {
      values[name] = field.parse(raw);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A list of records reports the field within it.
      for (const [inside, codes] of Object.entries(error.fields))
        errors[inside.startsWith('[') ? `${name}${inside}` : name] = codes;
    }
  }
  return { values: values as Partial<ValuesOf<F>>, errors };
}

/** Also finds a value that an unencoded `&` cut in two, so that its first part is not taken for the whole. */
export function unknownFields(fields: FieldSet, sent: RawGroup): FieldErrors {
  const errors: FieldErrors = {};
  noteUnknown(errors, sent, new Set(Object.keys(fields)), '');
  return errors;
}

function noteUnknown(errors: FieldErrors, group: RawGroup, known: ReadonlySet<string>, within: string): void {
  for (const part of Object.keys(group)) {
    const name = within === '' ? part : `${within}[${part}]`;
    if (known.has(name)) continue;
    const raw = group[part];
    if (raw === undefined) continue;
    if (isGroup(raw) && Object.keys(raw).length > 0) noteUnknown(errors, raw, known, name);
    else if (!isGroupOf(known, name, raw)) errors[name] = ['invalid_format'];
  }
}

/** An empty group of known fields is no error. A group that was sent twice is reported by its fields. */
function isGroupOf(known: ReadonlySet<string>, name: string, raw: Raw): boolean {
  return (isGroup(raw) || raw === repeated) && [...known].some((one) => one.startsWith(`${name}[`));
}

function valueAt(sent: RawGroup, path: readonly string[]): Raw | undefined {
  let at: Raw | undefined = sent;
  for (const part of path) {
    if (!isGroup(at)) return at === repeated ? repeated : undefined;
    at = at[part];
  }
  return at;
}
