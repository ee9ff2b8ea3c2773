/**
 * A place at an object where one module keeps what it knows of it: made when it is first asked for, and gone with the
 * object. A table beside the objects would be shared by everything in the process; this is handed on with its object.
 */
export function carriedBy<Owner extends object, T>(make: (owner: Owner) => T): (owner: Owner) => T {
  const place = Symbol('carried');
  return (owner) => {
    const carrier = owner as { [place]?: { value: T } };
    carrier[place] ??= { value: make(owner) };
    return carrier[place].value;
  };
}
