import { ApiError } from '../errors.ts';
import { highestPriority, most } from '../domain/bounds.ts';
import { areCachePaths } from '../domain/cache-paths.ts';
import { parseGitAddress } from '../domain/git-address.ts';
import { compileGlob } from '../domain/globs.ts';
import { parseImageReference } from '../domain/image-reference.ts';
import { fullRefGlob } from '../domain/limited-refs.ts';
import { readMatrix, readVariant, textOfAxis, textOfVariant, type Axis } from '../domain/matrix.ts';
import { isRetryReason } from '../domain/retry-on.ts';
import { tagOfSuiteForm } from '../domain/tags.ts';
import { isReservedVariable, variableNameForm } from '../domain/variable-names.ts';
import { described, lines, refined, text, wholeNumber, withDefault, words, type Field } from './fields.ts';

export const name = text('name');
export const description = text('description', { lines: 'many' });
export const command = text('command', { lines: 'many' });
export const tags = words({
  most: 'tags',
  longest: 'tag',
  pattern: tagOfSuiteForm,
  description: 'only runners with all of these tags',
});
export const image = text('image', {
  check: (value) => parseImageReference(value) !== undefined,
  description: "an OCI reference, such as registry/name:tag; blank for the machine's programs",
});
/** The values of a variant may stand in it (variant-settings.ts). */
export const imageOfSuite = text('image', {
  check: (value) => value.includes('$') || parseImageReference(value) !== undefined,
  description: `${image.schema.description}; $NAME is a value of the matrix`,
});
export const globs = (description: string): Field<string[], string> =>
  lines({ most: 'globs', longest: 'glob', check: (glob) => compileGlob(glob) !== undefined, isSet: true, description });
/** Refs that may use something. Each alternative in braces counts as a glob. */
export const refs = (description: string): Field<string[], string> =>
  refined(
    lines({
      most: 'refGlobs',
      longest: 'glob',
      check: (glob) => fullRefGlob(glob) !== undefined,
      isSet: true,
      description,
    }),
    (named) => (named.flatMap((glob) => compileGlob(glob) ?? []).length > most.refGlobs ? undefined : named),
  );
export const retryOn = withDefault(
  lines({
    most: 'retryOn',
    longest: 'retryOn',
    check: isRetryReason,
    isSet: true,
    description:
      'which builds are tried again, up to two times: errored (by the machine’s fault), timeout, exit:N, log:EXPRESSION ' +
      '(a line of the log matches); an empty list for none',
  }),
  ['errored'],
);
/** Their email addresses. */
export const approvers = refined(
  lines({
    most: 'approvers',
    longest: 'email',
    isSet: true,
    description: 'e-mail addresses of users of the project, one of whom must approve; empty: any user of the project',
  }),
  (addresses) => Array.from(new Set(addresses.map((address) => address.toLowerCase()))),
);
const recipient = /^[^\s,;@]+@[^\s,;@]+$/;
const addressList = refined(
  text('recipients', {
    description: 'e-mail addresses of users of the project, with commas between them; or committers',
  }),
  (value) => {
    if (value.trim() === 'committers') return 'committers';
    const addresses = [...new Set(value.toLowerCase().split(/[\s,;]+/))].filter((one) => one !== '');
    return addresses.every((one) => recipient.test(one)) ? addresses.join(', ') : undefined;
  },
);
/** Who gets e-mail. A program may send a list of addresses instead of one text. */
export const recipients: Field<string> = {
  ...addressList,
  parse: (raw) => addressList.parse(Array.isArray(raw) ? raw.join(', ') : raw),
};
export const priority = described(
  wholeNumber({ min: -highestPriority, max: highestPriority, fallback: 0 }),
  'higher ones begin first among the builds of an account',
);
export const cachePaths = refined(
  lines({
    most: 'cachePaths',
    longest: 'cachePath',
    isSet: true,
    description: 'paths to cache for later builds, in the workspace or under ~',
  }),
  (paths) => (areCachePaths(paths) ? paths : undefined),
);
export const matrix = refined(
  lines({
    most: 'matrixLines',
    longest: 'matrixLine',
    description: 'NAME=a,b,c: one build for every combination',
  }),
  (entries) => readMatrix(entries)?.map(freeAxis).map(textOfAxis),
);
/** Variants of a matrix, or parts that some of them share. */
export const variants = (description: string): Field<string[], string> =>
  refined(lines({ most: 'variants', longest: 'variant', isSet: true, description }), (entries) => {
    const read = entries.map(readVariant).filter((axes) => axes !== undefined);
    return read.length === entries.length ? read.map((axes) => textOfVariant(axes.map(freeAxis))) : undefined;
  });

/** They may name variables that do not exist. */
export const variableNames = (description: string): Field<string[], string> =>
  lines({
    most: 'ignoredVariables',
    longest: 'variableName',
    check: (name) => variableNameForm.test(name),
    isSet: true,
    description,
  });

/** Names that the service sets itself are refused. */
export const variableName = refined(text('variableName', { pattern: variableNameForm }), freeVariable);

export const variableContent = text('variableContent', { lines: 'many' });

function freeAxis(axis: Axis): Axis {
  return { ...axis, name: freeVariable(axis.name) };
}

function freeVariable(variable: string): string {
  if (isReservedVariable(variable)) throw new ApiError('is_reserved');
  return variable;
}

/** The path must be possible in git: relative, without `..` and without git's own names. */
export const configFile = text('file', {
  check: isDocumentPath,
  description: 'a path in the repository, such as .headrace.toml; blank for none',
});

function isDocumentPath(path: string): boolean {
  const isPlain = /^[^\p{Cc}\\:*?"<>|-][^\p{Cc}\\:*?"<>|]*\.(?:toml|json|ya?ml)$/u.test(path);
  return isPlain && path.split('/').every((part) => !['', '.', '..'].includes(part) && part.toLowerCase() !== '.git');
}

/** Over SSH a user is needed: the default would be the user who runs git here. */
const isOverSsh = (url: string): boolean => {
  const { scheme, user = '' } = parseGitAddress(url) ?? {};
  return scheme === 'ssh' && user !== '';
};

export const repositoryUrl = text('repositoryUrl', {
  check: (url) => isOverSsh(url) && !url.includes('://'),
  description: 'user@host:path, without a protocol; needed unless clone_url is given',
});
export const sshCloneUrl = text('repositoryUrl', {
  check: isOverSsh,
  description: 'ssh://user@host:port/path, or as repository_url; it may replace repository_url',
});
export const cloneUrl = text('repositoryUrl', {
  check: (url) => isOverSsh(url) || parseGitAddress(url)?.scheme === 'https',
  description: 'ssh://user@host:port/path, https://host:port/path, or as repository_url; it may replace repository_url',
});

/** The rules of git-check-ref-format, without names that git would take for an option. */
export const branch = text('ref', { check: isBranchName });

function isBranchName(value: string): boolean {
  if (/[\s~^:?*[\\\p{Cc}]|\.\.|@\{|\/\/|^[-/]|[/.]$|\.lock(\/|$)|(^|\/)\./u.test(value)) return false;
  return value !== '@' && value !== 'HEAD';
}

/** A branch, a tag, or a full or short SHA, but nothing that git could take for an option. */
export const commitRef = text('ref', { check: (value) => isBranchName(value) || value === 'HEAD' });

/** Credentials are refused, because they would be stored and shown in clear. */
export function isWebAddress(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return (
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    url.hostname !== '' &&
    url.username === '' &&
    url.password === ''
  );
}
