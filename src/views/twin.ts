/** An identifier as a number, and as text for clients that cannot hold 64 bits. */
export function twin<Name extends string>(
  name: Name,
  id: bigint,
): { [K in Name | `${Name}_str`]: K extends Name ? bigint : string } {
  // Most are named `id`; a literal is several times faster than computed names.
  const named = name === 'id' ? { id, id_str: String(id) } : { [name]: id, [`${name}_str`]: String(id) };
  return named as never;
}
