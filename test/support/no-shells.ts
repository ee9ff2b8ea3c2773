import assert from 'node:assert/strict';
import type { Link } from '../../src/shared/protocol/index.ts';

/** The part of a link that runners without kept files never use. */
export const noShells: Pick<Link, 'kept' | 'shells' | 'shell' | 'shellEnd'> = {
  kept: async () => ({ gone: [], needed: [] }),
  shells: async () => [],
  shell: () => assert.fail('there is no shell'),
  shellEnd: async () => {},
};
