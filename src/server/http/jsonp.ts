import { ApiError } from '../../shared/errors.ts';
import { longest } from '../../shared/domain/bounds.ts';

const identifier = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*`;
const identifierPath = new RegExp(String.raw`^${identifier}(\.${identifier})*$`, 'u');

/** A call of a function with such a name would be a syntax error, or mean something else. */
const reserved = new Set(
  (
    'await break case catch class const continue debugger default delete do else enum export extends false finally for ' +
    'function if implements import in instanceof interface let new null package private protected public return static ' +
    'super switch this throw true try typeof var void while with yield'
  ).split(' '),
);

export function readCallback(raw: unknown): string | undefined {
  if (raw === undefined) return undefined;
  if (typeof raw !== 'string' || raw.length > longest.callback || !identifierPath.test(raw)) throw refused();
  const [first = ''] = raw.split('.', 1);
  if (reserved.has(first)) throw refused();
  return raw;
}

/**
 * U+2028 and U+2029 are valid in JSON but not in older engines' scripts. In a script, a key `__proto__` would set the
 * prototype, except in brackets. A quote within a text has a backslash, so only keys match.
 */
export function wrapInCallback(callback: string, json: string): string {
  const script = json
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029')
    .replaceAll(/(?<!\\)"__proto__":/g, '["__proto__"]:');
  return `${callback}(${script})`;
}

function refused(): ApiError {
  return new ApiError('invalid_format', 'callback');
}
