import { existsSync } from 'node:fs';
import { rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Repository } from './repository.ts';

/** A pre-receive hook that waits until the test decides: a slow remote. */
export interface WaitingHook {
  /** Waits until it has begun this many times. */
  begins(times: number): Promise<void>;
  /** How often it has begun. */
  count(): Promise<number>;
  /** All waiting and later pushes may pass. */
  letGo(): Promise<void>;
  /** All waiting pushes are refused, and the hook is removed. */
  remove(): Promise<void>;
}

export async function waitingHook(repository: Repository): Promise<WaitingHook> {
  const [begun, go, refuse] = ['begun', 'go', 'refuse'].map((name) => join(repository.folder, name)) as [
    string,
    string,
    string,
  ];
  const path = join(repository.folder, 'hooks', 'pre-receive');
  // It also ends with the repository: a failed test leaves no process behind.
  await Promise.all([begun, go, refuse].map((file) => rm(file, { force: true })));
  const script = `#!/bin/sh
echo waiting >&2
echo >> '${begun}'
while [ ! -e '${go}' ]; do
  [ -e '${begun}' ] && [ ! -e '${refuse}' ] || exit 1
  sleep 0.05
done
`;
  await writeFile(path, script, { mode: 0o755 });
  const count = async (): Promise<number> => (existsSync(begun) ? (await stat(begun)).size : 0);
  return {
    count,
    async begins(times) {
      while ((await count()) < times) await pause(20);
    },
    letGo: () => writeFile(go, ''),
    async remove() {
      await writeFile(refuse, '');
      await rm(path, { force: true });
    },
  };
}
