/**
 * One of the processes of a whole run. It takes the next test file that no other has taken, runs its tests, and goes on
 * until no file is left. Modules are then loaded and compiled once for many files, which is most of what a short file
 * costs.
 */
import hooks from 'node:async_hooks';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { processorTime } from './processor-time.ts';

// Node's test runner follows every promise, to know of which test an error is that nobody caught. That takes a tenth of the
// processor's time. Without it such an error is still told, and fails the run, but not under the name of its test.
const { createHook } = hooks;
hooks.createHook = (callbacks) => createHook({ ...callbacks, trackPromises: false });
const { test } = await import('node:test');

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

// For this process alone (run-tests.ts): small programs would get large pages too.
delete process.env.GLIBC_TUNABLES;
const load = createRequire(import.meta.url);
const environment = { ...process.env };
const { TEST_FILES = '[]', TEST_CLAIMS = '' } = environment;
const root = join(import.meta.dirname, '../..');

for (const [at, { file, lacks }] of (JSON.parse(TEST_FILES) as { file: string; lacks: string | false }[]).entries()) {
  if (!take(at)) continue;
  const before = processorTime();
  // Tests and hooks that a file defines while it is loaded belong to this test: it ends when they have ended. It is loaded
  // without a pause, because after one the runner would not know to which test they belong.
  await test(file, { timeout: fileMinutes * 60_000, skip: lacks }, () => {
    load(join(root, file));
  });
  putBackEnvironment();
  writeFileSync(join(TEST_CLAIMS, String(at)), String(processorTime() - before));
}

// A process that never ends, because something stays open, would block the whole run.
setTimeout(() => {
  process.stderr.write(`a process of the tests does not end; open: ${process.getActiveResourcesInfo().join(', ')}\n`);
  process.exit(1);
}, endSeconds * 1000).unref();
