import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { removeTree } from '../../src/shared/lib/remove-tree.ts';
import { openSandboxes } from '../../src/runner/sandbox/index.ts';
import type { Sandboxes } from '../../src/runner/sandbox/types.ts';

/** Sandboxes without a runner. `prepare` of them are opened ahead. The folder is removed with them. */
export interface BenchSandboxes extends AsyncDisposable {
  folder: string;
  sandboxes: Sandboxes;
}

export async function openBenchSandboxes(prepare: number): Promise<BenchSandboxes> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const sandboxes = await openSandboxes({
    stateDir: join(folder, 'sandboxes'),
    network: 'none',
    isolation: 'required',
    log: () => {},
    prepare,
  });
  return {
    folder,
    sandboxes,
    async [Symbol.asyncDispose]() {
      await sandboxes.close();
      await removeTree(folder);
    },
  };
}
