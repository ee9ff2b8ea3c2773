/** Runs every test, or the files that are given, in a few processes that share out the files. */
import { globSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { globalSetup, globalTeardown } from '../test/support/global.ts';

const root = join(import.meta.dirname, '..');

/** These take longest. They begin first, so that no process is busy with one when the others have nothing left. */
const longest = [
  'test/cli/',
  'test/deploy/',
  'test/faults/',
  'test/journeys/',
  'test/runner/',
  'test/s3/',
  'test/ui/',
  'test/upkeep/',
];

const given = process.argv.slice(2);
const files = (given.length > 0 ? given : globSync('test/**/*.test.ts', { cwd: root })).toSorted();
const isLong = (file: string): boolean => longest.some((folder) => file.startsWith(folder));

const claims = mkdtempSync(join(tmpdir(), 'headrace-claims-'));
process.on('exit', () => rmSync(claims, { recursive: true, force: true }));
process.env.TEST_CLAIMS = claims;
const inOrder = [...files.filter(isLong), ...files.filter((file) => !isLong(file))];
process.env.TEST_FILES = JSON.stringify(inOrder);

// Every program that a test starts begins as a copy of the process, which costs more the more memory that has. The first two
// are settings of bin/headrace, which says what they do. The third keeps it in few large pages: half the cost.
const littleMemory = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_TRIM_THRESHOLD_: '131072',
  GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1',
};
Object.assign(process.env, littleMemory);

await globalSetup();
// More than there are cores: most of the time tests wait for processes, disks and timers.
const processes = availableParallelism() * 3;
const results = run({
  files: Array.from({ length: processes }, () => join(root, 'test/support/worker.ts')),
  concurrency: processes,
  execArgv: ['--max-semi-space-size=16'],
});
/** How long each file took, in milliseconds; it is a test of its own (worker.ts). */
const durations = new Map<string, number>();
results.on('test:complete', ({ name, nesting, details }) => {
  if (nesting === 0 && name.endsWith('.test.ts')) durations.set(name, details.duration_ms);
});
results.on('test:fail', ({ todo }) => {
  if (todo === undefined || todo === false) process.exitCode = 1;
});
await pipeline(results.compose(spec), process.stdout, { end: false });
/** The ten files with the most seconds. */
function tell(what: string, seconds: [string, number][]): void {
  console.log(`${what}:`);
  for (const [file, most] of seconds.toSorted(([, a], [, b]) => b - a).slice(0, 10))
    console.log(`  ${most.toFixed(1).padStart(6)} s  ${file}`);
}
tell(
  'the slowest files',
  Array.from(durations, ([file, ms]) => [file, ms / 1000]),
);
tell(
  'the files that took most of the processor',
  readdirSync(claims).map((at) => [inOrder[Number(at)] ?? '', Number(readFileSync(join(claims, at), 'utf8')) / 100]),
);
await globalTeardown();
