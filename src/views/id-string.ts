/** An identifier as a number, and as text for clients that cannot hold 64 bits. */
export function twin<Name extends string>(
  name: Name,
  id: bigint,
): { [K in Name | `${Name}_str`]: K extends Name ? bigint : string } {
  return { [name]: id, [`${name}_str`]: String(id) } as never;
}
