/** The text is for clients without 64-bit integers. Without an id: null and a blank text. */
export function withIdString<Name extends string, Id extends bigint | null>(
  name: Name,
  id: Id,
): { [K in Name | `${Name}_str`]: K extends Name ? Id : string } {
  return { [name]: id, [`${name}_str`]: id === null ? '' : String(id) } as never;
}
