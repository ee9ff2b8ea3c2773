import { ApiError } from '../errors.ts';
import * as schema from '../http/schema.ts';
import type { JsonSchema } from '../http/schema.ts';

/** An identifier and its twin for readers that cannot hold 64 bits. */
export function twin<Name extends string>(
  name: Name,
  id: bigint,
): { [K in Name | `${Name}_str`]: K extends Name ? bigint : string } {
  // Most are called `id`; a literal is several times quicker than computed names.
  const named = name === 'id' ? { id, id_str: String(id) } : { [name]: id, [`${name}_str`]: String(id) };
  return named as never;
}

export const idTwin = { id: schema.id, id_str: schema.string };

export const destroyed = { destroyed: true };
export const destroyedAnswer: JsonSchema = schema.record({ destroyed: schema.boolean });

/** Answers what was found; what was not found is an error the caller can read. */
export function orNotFound<T>(found: T | undefined, field?: string): T {
  if (found === undefined) throw new ApiError('not_found', field);
  return found;
}
