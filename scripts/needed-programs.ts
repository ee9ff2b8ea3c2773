/**
 * Selects the programs that some test files need, from the programs of all tests:
 * scripts/needed-programs.ts FILE … -- git=git …
 * A file needs a program if a module that it imports, directly or through other modules, has its name as a text.
 */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';

const root = join(import.meta.dirname, '..');
const end = process.argv.indexOf('--');
const files = process.argv.slice(2, end).filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
const programs = process.argv.slice(end + 1);

/** Programs that come with another one. Their own names are in no file. */
const companions: Record<string, string[]> = {
  python3: ['python3-seccomp', 'python3-swift', 'python3-aiosmtpd'],
  'chromium-headless-shell': ['liberation-fonts'],
  slurmctld: ['slurmd', 'squeue', 'munged'],
};

/** Imports. A test that starts the program needs everything that the program needs, so this counts as an import. */
function importsOf(file: string, text: string): string[] {
  const named = Array.from(text.matchAll(/\b(?:from|import)\s*\(?'(\.[^']+)'/g), ([, path = '']) => path);
  const started = /bin\/headrace|TEST_PROGRAM/.test(text) ? [join(root, 'src/main.ts')] : [];
  return [...named.map((path) => resolve(dirname(file), path)), ...started].filter((path) => existsSync(path));
}

const texts = new Map<string, string>();
const waiting = files.map((file) => resolve(file));
for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
  if (texts.has(file)) continue;
  const text = readFileSync(file, 'utf8');
  texts.set(file, text);
  waiting.push(...importsOf(file, text));
}

const code = [...texts.values()].join('\n').replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '');
const isNamed = (program: string): boolean => new RegExp(`['"\`/ ]${RegExp.escape(program)}['"\` ]`).test(code);
const isNeeded = (program: string): boolean => {
  const [leader = program] = Object.keys(companions).filter((one) => companions[one]?.includes(program));
  return isNamed(leader);
};
// If the files are unknown, all programs are needed.
console.log(
  (files.length === 0 ? programs : programs.filter((entry) => isNeeded(entry.split('=')[0] ?? ''))).join(' '),
);
