import { join } from 'node:path';
import type { Machine } from './machine.ts';
import type { Sandbox } from './sandbox.ts';
import type { Left } from './types.ts';

/** What a run left in its sandbox, of which no process lives any more. */
export function leftIn(machine: Machine, sandbox: Sandbox): Left {
  return {
    keep: (root, path, layer) =>
      sandbox.namespaces.keep(
        join(sandbox.folder, root === 'workspace' ? 'changes' : 'home'),
        path,
        join(layer, root),
        machine.users.files,
      ),
  };
}
