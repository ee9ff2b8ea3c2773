import { ApiError } from '../errors.ts';
import { lines, text, words, type Field } from '../http/fields.ts';
import { areCachePaths } from '../lib/cache-paths.ts';
import { compileGlob } from '../lib/globs.ts';
import { parseImageReference } from '../lib/image-reference.ts';
import { tagForm } from '../lib/tags.ts';

/** Forms that fields of several resources share. */

export const name = (): Field<string> => text('name');
export const description = (): Field<string> => text('description', { lines: 'many' });
export const tags = (): Field<string[]> =>
  words({ most: 'tags', longest: 'tag', pattern: tagForm, description: 'only runners that have all of them' });
export const image = (): Field<string> =>
  text('image', {
    check: (value) => parseImageReference(value) !== undefined,
    description: "an OCI reference, such as registry/name:tag; blank for the machine's programs",
  });
/** Files in the workspace. */
export const globs = (description: string): Field<string[]> =>
  lines({ most: 'globs', longest: 'glob', check: (glob) => compileGlob(glob) !== undefined, isSet: true, description });
export function cachePaths(description: string): Field<string[]> {
  const field = lines({ most: 'cachePaths', longest: 'cachePath', isSet: true, description });
  return { ...field, parse: (raw) => checkedPaths(field.parse(raw)) };
}

function checkedPaths(paths: string[]): string[] {
  if (!areCachePaths(paths)) throw new ApiError('invalid_format');
  return paths;
}

/** A document in the repository. Its path is one that git has: relative, without steps up or names of git's own. */
export const configFile = (): Field<string> =>
  text('file', {
    check: isDocumentPath,
    description: 'a path in the repository, such as .headrace.toml; blank for none',
  });

function isDocumentPath(path: string): boolean {
  const isPlain = /^[^\p{Cc}\\:*?"<>|-][^\p{Cc}\\:*?"<>|]*\.(?:toml|json)$/u.test(path);
  return isPlain && path.split('/').every((name) => !['', '.', '..'].includes(name) && name.toLowerCase() !== '.git');
}

export const command = (): Field<string> => text('command', { lines: 'many' });

/**
 * `user@host:path`. Neither part can begin with a dash, because git and ssh would read it as an option. Transport
 * helpers (`ext::…`) do not fit this form. A path of slashes only, or with nothing before `.git`, is refused.
 */
const scpLike =
  /^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}@(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):(?!\/*(?:\.git)?\/*$)[^-:\s][^\s]*$/;

export const repositoryUrl = (): Field<string> =>
  text('repositoryUrl', { pattern: scpLike, description: 'user@host:path, without a protocol' });

/** The rules of git-check-ref-format for a branch, without names that git would take for an option. */
export const branch = (): Field<string> => text('ref', { check: isBranchName });

function isBranchName(value: string): boolean {
  if (/[\s~^:?*[\\\p{Cc}]|\.\.|@\{|\/\/|^[-/]|[/.]$|\.lock(\/|$)|(^|\/)\./u.test(value)) return false;
  return value !== '@' && value !== 'HEAD';
}

/** A branch, a tag, or a full or short SHA: any name of a commit that cannot be an option. */
export const commitRef = (): Field<string> =>
  text('ref', { check: (value) => isBranchName(value) || value === 'HEAD' });
