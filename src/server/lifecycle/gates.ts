import type { SuiteRow } from '../db/schema.ts';

/**
 * The fields of a suite that keep its builds from running without a person. Everybody who can push to the default branch
 * writes the file in the repository. So the file may set any of them, and takes away only those that it has set itself.
 */
export const gates = ['approval', 'manual'] as const;
type Gates = Pick<SuiteRow, (typeof gates)[number]>;

/** Which gates the file has set, after a change. What a person sets is the person's from then on. */
export function gatesOfFile(
  changed: Partial<Gates>,
  isFile: boolean,
  before?: Gates & { gates_of_file: string },
): string {
  const isStill = gates.filter((gate) => {
    const was = before?.gates_of_file.split(',').includes(gate) ?? false;
    const isSame = changed[gate] === undefined || (isFile && changed[gate] === before?.[gate]);
    return isSame ? was : isFile && changed[gate] === 1;
  });
  return isStill.join(',');
}

/** Those that the file may not take away. */
export function gatesOfPeople(suite: Gates & { gates_of_file: string }): (typeof gates)[number][] {
  const ofFile = suite.gates_of_file.split(',');
  return gates.filter((gate) => suite[gate] === 1 && !ofFile.includes(gate));
}
