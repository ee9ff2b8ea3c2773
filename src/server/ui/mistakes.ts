import type { ErrorCode } from '../../shared/errors.ts';
import type { JsonSchema } from '../../shared/records/schema.ts';

/** Replaces the usual messages: for a value of the wrong form, or by error code. */
export type Wrong = string | Partial<Record<ErrorCode, string>>;

const usual: Partial<Record<ErrorCode, (label: string) => string>> = {
  is_blank: (label) => `${label} is missing.`,
  already_exists: (label) => `${label} is already in use.`,
  is_reserved: (label) => `${label} is reserved: choose another.`,
  not_found: (label) => `${label} names nothing that is there.`,
  resource_temporary_unavailable: (label) => `${label} cannot be changed now. Try again in a while.`,
};

interface About {
  label: string;
  wrong?: Wrong | undefined;
  schema?: JsonSchema;
  /** The user's input. */
  text?: string;
}

export function mistake(codes: readonly ErrorCode[], about: About): string {
  const { label, wrong = {} } = about;
  const own = typeof wrong === 'string' ? { invalid_format: wrong } : wrong;
  return codes
    .map((code) => {
      if (code === 'invalid_format') return invalid({ ...about, wrong: own[code] });
      return own[code] ?? usual[code]?.(label) ?? `${label} does not have the right form.`;
    })
    .join(' ');
}

/** Limits come from the field. */
function invalid({ label, wrong, schema = {}, text = '' }: About & { wrong: string | undefined }): string {
  const { type, minimum, maximum, maxLength, maxItems, items } = schema;
  if (type === 'string' && maxLength !== undefined && Array.from(text).length > maxLength)
    return `${label} is longer than ${maxLength} characters.`;
  if (wrong === undefined && minimum !== undefined && maximum !== undefined)
    return `This is no number from ${minimum} to ${maximum}.`;
  const words = wrong ?? `${label} does not have the right form.`;
  if (maxItems === undefined || items?.enum) return words;
  return `${words} At most ${maxItems} entries${items?.maxLength === undefined ? '' : `, of up to ${items.maxLength} characters each`}.`;
}
