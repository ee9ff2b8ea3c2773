import type { Link } from '../../src/shared/protocol/index.ts';

/** The part of a link that runners without kept files never use. */
export const noShells: Pick<Link, 'kept' | 'shells' | 'shellInput' | 'shellOutput' | 'shellEnd'> = {
  kept: async () => ({ gone: [], needed: [] }),
  shells: async () => [],
  shellInput: async () => undefined,
  shellOutput: async () => undefined,
  shellEnd: async () => {},
};
