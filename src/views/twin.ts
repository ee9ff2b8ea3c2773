/** An identifier and its twin for readers that cannot hold 64 bits. */
export function twin<Name extends string>(
  name: Name,
  id: bigint,
): { [K in Name | `${Name}_str`]: K extends Name ? bigint : string } {
  // Most are called `id`; a literal is several times quicker than computed names.
  const named = name === 'id' ? { id, id_str: String(id) } : { [name]: id, [`${name}_str`]: String(id) };
  return named as never;
}
