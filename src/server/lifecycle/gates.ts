import type { SuiteRow } from '../db/schema.ts';

/**
 * Suite fields that prevent builds from running without a user. Anyone who can push to the default branch writes the
 * repository's file. So the file may set any gate, but remove only its own.
 */
export const gates = ['approval', 'manual'] as const;
type Gates = Pick<SuiteRow, (typeof gates)[number]>;

/** A gate that a user sets is the user's from then on. */
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

export function gatesOfPeople(suite: Gates & { gates_of_file: string }): (typeof gates)[number][] {
  const ofFile = suite.gates_of_file.split(',');
  return gates.filter((gate) => suite[gate] === 1 && !ofFile.includes(gate));
}
