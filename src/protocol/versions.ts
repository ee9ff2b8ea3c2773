import packageJson from '../../package.json' with { type: 'json' };

export const version = packageJson.version;

/** Orders of this number may have an image, and files and reports to keep, and may be about a fork's commit. */
export const ordersKnown = 2;

/** A runner that does not send its version is older than the versions. */
export const unnamedVersion = '0.1.0';

/** Whether programs of these versions are compatible; false where one of them is no version. */
export function understandEachOther(one: string, other: string): boolean {
  const [mine, theirs] = [one, other].map((text) => /^(\d{1,6})\.(\d{1,6})\.\d/.exec(text));
  if (!mine || !theirs) return false;
  return mine[1] === theirs[1] && Math.abs(Number(mine[2]) - Number(theirs[2])) <= 1;
}
