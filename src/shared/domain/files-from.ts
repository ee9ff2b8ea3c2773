import { most } from './bounds.ts';
import { inVariant, variantsOf, type Matrix } from './matrix.ts';

/**
 * A suite takes files from suites that it needs: from one (a name) instead of the checkout, or from several (a list of
 * names) beside it. A name may have `$NAME` of the suite's matrix.
 */
export interface TakingSuite {
  needs: readonly string[];
  from: string | readonly string[];
  matrix: Matrix;
}
type ByName = ReadonlyMap<string, TakingSuite>;

/** In the workspace. */
export const lentFilesFolder = '.headrace/files';

const longestFolder = 255;

/** The directory of a suite, or of a variant in it. */
export function lentFolder(name: string): string {
  return name.replaceAll('/', '%2F');
}

function isFolder(name: string): boolean {
  return name !== '.' && name !== '..' && Buffer.byteLength(lentFolder(name)) <= longestFolder;
}

/** The names that a variant takes files from. */
export function takenBy(from: TakingSuite['from'], variant: string): string[] {
  const all = typeof from === 'string' ? [from].filter((name) => name !== '') : from;
  return all.map((name) => inVariant(name, variant));
}

export function takenByAny({ from, matrix }: Pick<TakingSuite, 'from' | 'matrix'>): Set<string> {
  return new Set(variantsIn(from, matrix).flatMap((variant) => takenBy(from, variant)));
}

/** Variants differ only if a name has a value of the matrix in it. */
function variantsIn(from: TakingSuite['from'], matrix: Matrix): string[] {
  return JSON.stringify(from).includes('$') ? variantsOf(matrix) : [variantsOf(matrix)[0] ?? ''];
}

export interface WrongFiles {
  code: 'not_found' | 'invalid_format';
  why: string;
}

/** Each variant is judged as if its names stood there. */
export function wrongFiles(suite: TakingSuite, byName: ByName): WrongFiles | undefined {
  const { from, matrix } = suite;
  const isList = typeof from !== 'string';
  if (isList && from.length > most.filesFromSuites)
    return { code: 'invalid_format', why: `names more than ${most.filesFromSuites} suites` };
  for (const variant of variantsIn(from, matrix)) {
    const names = takenBy(from, variant);
    const wrong = names.map((name) => wrongName(suite, name, byName)).find((one) => one !== undefined);
    if (wrong) return wrong;
    if (!isList && depthOf(suite, variant, byName) > most.layeredSuites)
      return { code: 'invalid_format', why: `makes a chain of more than ${most.layeredSuites} suites` };
    if (isList && new Set(names.map(lentFolder)).size < names.length)
      return { code: 'invalid_format', why: 'names a suite twice, or two suites with one directory' };
  }
  return undefined;
}

function wrongName({ needs, from, matrix }: TakingSuite, name: string, byName: ByName): WrongFiles | undefined {
  const other = byName.get(name);
  const invalid = (why: string): WrongFiles => ({
    code: 'invalid_format',
    why: `names ${JSON.stringify(name)}, ${why}`,
  });
  if (!other) return { ...invalid('which is not a suite of the file'), code: 'not_found' };
  if (!needs.includes(name)) return invalid('which is not in needs: add it there');
  const variants = variantsOf(other.matrix);
  if (typeof from === 'string') {
    const isSame = variants[0] === '' || variants.join('\n') === variantsOf(matrix).join('\n');
    return isSame ? undefined : invalid('whose matrix differs: give both the same');
  }
  if (![name, ...variants.filter((variant) => variant !== '')].every(isFolder))
    return invalid('which cannot be the name of a directory');
  return undefined;
}

/** The number of suites down to one that starts with a checkout. A mistake ends the path. */
function depthOf(suite: TakingSuite, variant: string, byName: ByName): number {
  let depth = 0;
  for (let at: TakingSuite | undefined = suite; at && depth <= most.layeredSuites; depth += 1) {
    const [name] = typeof at.from === 'string' ? takenBy(at.from, variant) : [];
    if (name === undefined || !at.needs.includes(name)) break;
    at = byName.get(name);
  }
  return depth;
}
