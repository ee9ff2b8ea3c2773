const longest = 512;

/** The rules of git-check-ref-format, so that a name is safe in a refspec or on git's standard input. */
export function isRefName(name: string): boolean {
  if (name === '' || name === '@' || name.length > longest || name.startsWith('-')) return false;
  if (/[\s\p{Cc}~^:?*[\\]|\.\.|@\{|\/\/|^\/|[/.]$/u.test(name)) return false;
  return name.split('/').every((part) => !part.startsWith('.') && !part.endsWith('.lock'));
}
