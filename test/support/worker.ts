/**
 * One of the processes of a whole run. It takes the next test file that no other has taken, runs its tests, and goes on
 * until no file is left. Modules are then loaded and compiled once for many files, which is most of what a short file
 * costs.
 */
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const fileMinutes = 12;
const endSeconds = 60;

/** Only one process can make the file that claims a test file. */
function take(at: number): boolean {
  try {
    closeSync(openSync(join(TEST_CLAIMS, String(at)), 'wx'));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Variables that a file set would reach the programs that later files start. */
function putBackEnvironment(): void {
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(environment, name)) delete process.env[name];
  Object.assign(process.env, environment);
}

const environment = { ...process.env };
const { TEST_FILES = '[]', TEST_CLAIMS = '' } = environment;
const root = join(import.meta.dirname, '../..');

for (const [at, file] of (JSON.parse(TEST_FILES) as string[]).entries()) {
  if (!take(at)) continue;
  // Tests and hooks that a file defines while it is loaded belong to this test: it ends when they have ended.
  await test(file, { timeout: fileMinutes * 60_000 }, async () => {
    await import(join(root, file));
  });
  putBackEnvironment();
}

// A process that never ends, because something stays open, would block the whole run.
setTimeout(() => {
  process.stderr.write(`a process of the tests does not end; open: ${process.getActiveResourcesInfo().join(', ')}\n`);
  process.exit(1);
}, endSeconds * 1000).unref();
