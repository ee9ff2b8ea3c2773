/**
 * Prints the test files that need nothing but Node and what every machine has: no database server, no sandbox, no sshd,
 * no browser, no server of ours. That is decided by a file's imports, direct and indirect.
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '..');

/** A test that imports one of these starts a program, or takes a while. */
const starting = [
  'test/support/browser.ts',
  'test/support/databases.ts',
  'test/support/postgres.ts',
  'test/support/program.ts',
  'test/support/small-disk.ts',
  'test/support/sshd.ts',
  'test/support/swift.ts',
  'test/upkeep/support.ts',
  'test/deploy/support.ts',
  'test/runner/sandbox/seccomp-support.ts',
  'src/runner/sandbox/index.ts',
  'fuzz/targets.ts',
];

/** Types are erased: importing one loads nothing. */
function importsOf(file: string): string[] {
  const statements = readFileSync(join(root, file), 'utf8').matchAll(/^(?:import|export) [^;]*?'(\.[^']+\.ts)';/gms);
  const loaded = [...statements].filter(([statement]) => !/^(?:import|export) type /.test(statement));
  return loaded.map(([, path = '']) => join(dirname(file), path));
}

function isQuick(file: string, seen = new Set<string>()): boolean {
  if (seen.has(file)) return true;
  seen.add(file);
  return !starting.includes(file) && importsOf(file).every((one) => isQuick(one, seen));
}

const files = globSync('test/**/*.test.ts', { cwd: root }).toSorted();
console.log(files.filter((file) => isQuick(file)).join('\n'));
