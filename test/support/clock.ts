import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import { temporaryFolder } from './databases.ts';

/** A clock for programs that are started with `env`. A test can set it while they run. */
export interface SettableClock {
  env: Record<string, string>;
  /** From now on this many seconds ahead of the real clock. */
  set(ahead: number): void;
}

export async function settableClock(): Promise<SettableClock> {
  const folder = temporaryFolder();
  const library = join(folder, 'clock.so');
  const file = join(folder, 'ahead');
  const source = join(import.meta.dirname, 'clock.c');
  const compiled = await run('cc', ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  assert.equal(compiled.status, 0, compiled.stderr.toString());
  const set = (ahead: number): void => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(ahead));
    writeFileSync(file, bytes, { flag: 'r+' });
  };
  writeFileSync(file, Buffer.alloc(8));
  return { env: { LD_PRELOAD: library, TEST_CLOCK: file }, set };
}
