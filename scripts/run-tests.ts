/**
 * Runs the quick tests (test/quick.ts) or all tests, in a few processes that share the files. Formatting, lint and
 * types are checked at the same time. Named files run without these checks, each in its own process.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { globalSetup, globalTeardown, locksOutOfOrder } from '../test/support/global.ts';
import { processorTime } from '../test/support/processor-time.ts';
import { lacksForFile } from '../test/support/needs.ts';
import { isQuick } from '../test/quick.ts';

// As a runner sets it, not as inherited: tests open sandboxes in their own processes, and builds run as other users.
process.umask(0o022);
const root = join(import.meta.dirname, '..');
const startedAt = performance.now();
const pattern: { type: 'string'; multiple: true; default: string[] } = { type: 'string', multiple: true, default: [] };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { all: { type: 'boolean' }, 'test-name-pattern': pattern, 'test-skip-pattern': pattern },
});
const isNamed = positionals.length > 0;
if (!isNamed && values.all !== true) process.env.TEST_QUICK = '1';

/** These take longest, so they begin first. Otherwise one process would still run such a file when the rest is done. */
const longest = [
  'test/cli/operator/',
  'test/deploy/',
  'test/faults/',
  'test/journeys/',
  'test/runner/',
  'test/s3/',
  'test/server/ui/',
  'test/upkeep/',
];
const isLong = (file: string): boolean => longest.some((folder) => file.startsWith(folder));
const found = globSync(isNamed ? positionals : 'test/**/*.test.ts', { cwd: root }).map((path) =>
  relative(root, join(root, path)),
);
const wanted = found.toSorted().filter((file) => process.env.TEST_QUICK === undefined || isQuick(file));
const inOrder = [...wanted.filter(isLong), ...wanted.filter((file) => !isLong(file))];
const files = inOrder.map((file) => ({ file, lacks: lacksForFile(file) }));

const claims = mkdtempSync(join(tmpdir(), 'headrace-claims-'));
process.on('exit', () => rmSync(claims, { recursive: true, force: true }));

// Every program that a test starts begins as a copy of the process, and more memory costs more to copy. bin/headrace
// explains the first two settings. The third keeps memory in few large pages, which halves the cost.
const littleMemory = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_TRIM_THRESHOLD_: '131072',
  GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1',
};

/** At a lower priority than the tests, which often wait and so leave processor time. */
function startChecks(): { said: () => string; ended: Promise<boolean> } {
  const checks = spawn('nice', [join(root, 'scripts/check')], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  checks.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()));
  return { said: () => said, ended: once(checks, 'close').then(([status]) => status === 0) };
}

function start(): ReturnType<typeof run> {
  if (isNamed) {
    const here = files.filter(({ lacks }) => lacks === false).map(({ file }) => join(root, file));
    const patterns = { testNamePatterns: values['test-name-pattern'], testSkipPatterns: values['test-skip-pattern'] };
    return run({ files: here, concurrency: Math.ceil(availableParallelism() * 2.5), ...patterns });
  }
  Object.assign(process.env, littleMemory, { TEST_FILES: JSON.stringify(files), TEST_CLAIMS: claims });
  // More than the number of cores: most of the time tests wait for processes, disks and timers.
  const processes = availableParallelism() * 3;
  return run({
    files: Array.from({ length: processes }, () => join(root, 'test/support/worker.ts')),
    concurrency: processes,
    execArgv: ['--max-semi-space-size=16'],
  });
}

await globalSetup();
const checks = isNamed ? undefined : startChecks();
const results = start();
/** Each file's duration in milliseconds. A file is a test (worker.ts). */
const durations = new Map<string, number>();
/** The number of skipped tests by reason. */
const skipped = new Map<string, number>();
const skip = (why: string): unknown => skipped.set(why, (skipped.get(why) ?? 0) + 1);
let counts = { tests: 0, passed: 0 };
let failed = 0;
results.on('test:complete', ({ name, nesting, details }) => {
  if (nesting === 0 && name.endsWith('.test.ts')) durations.set(name, details.duration_ms);
});
// A skipped suite counts as one test, because its number of tests is unknown.
results.on('test:pass', ({ name, skip: why }) => {
  if (typeof why === 'string' && why !== '') skip(why);
  else if (why !== undefined && why !== false) {
    process.exitCode = 1;
    skip(`no reason is given, which fails the run: ${name}`);
  }
});
results.on('test:fail', ({ todo, details }) => {
  if (todo !== undefined && todo !== false) return;
  process.exitCode = 1;
  if (details.type !== 'suite') failed += 1;
});
results.on('test:summary', (summary) => {
  if (summary.file === undefined) ({ counts } = summary);
});
await pipeline(results.compose(spec), process.stdout, { end: false });

/** The ten files with the most seconds. */
function tell(what: string, seconds: [string, number][]): void {
  console.log(`${what}:`);
  for (const [file, most] of seconds.toSorted(([, a], [, b]) => b - a).slice(0, 10))
    console.log(`  ${most.toFixed(1).padStart(6)} s  ${file}`);
}
if (values.all === true && !isNamed) {
  tell(
    'the slowest files',
    Array.from(durations, ([file, ms]) => [file, ms / 1000]),
  );
  tell(
    'the files that took most of the processor',
    readdirSync(claims).map((at) => [inOrder[Number(at)] ?? '', Number(readFileSync(join(claims, at), 'utf8')) / 100]),
  );
}
const locks = locksOutOfOrder();
if (locks !== '') {
  process.exitCode = 1;
  console.log(`locks were taken out of order, by tests or by programs that they started:\n${locks}`);
}
await globalTeardown();
for (const { file, lacks } of isNamed ? files : []) {
  if (lacks === false) continue;
  skip(lacks);
  console.log(`${file} is skipped: ${lacks}`);
}
if (isNamed && files.length === 0) {
  process.exitCode = 1;
  console.log(`no file is named ${positionals.join(' ')}`);
}
if (checks && !(await checks.ended)) {
  process.exitCode = 1;
  console.log(`${checks.said()}formatting, lint or types: failed (npm run check)`);
}

const left = [...skipped.values()].reduce((sum, count) => sum + count, 0);
const seconds = Math.round((performance.now() - startedAt) / 1000);
const took = `${Math.floor(seconds / 60)} min ${seconds % 60} s (${(processorTime() / 6000).toFixed(1)} min of processor time)`;
const ran = counts.passed + failed;
console.log(`${ran} tests ran: ${counts.passed} passed, ${failed} failed. ${left} were skipped. It took ${took}.`);
for (const [why, count] of [...skipped].toSorted(([, a], [, b]) => b - a))
  console.log(`${String(count).padStart(6)} skipped: ${why}`);
