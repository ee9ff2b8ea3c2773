import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { manual } from '../src/commands/manual.ts';

/**
 * The package holds what the commands import, as JavaScript: Node strips no types below node_modules. The packages that
 * they use are in it, so that nothing else is fetched.
 */
const root = resolve(import.meta.dirname, '..');
const out = resolve(process.argv[2] ?? join(root, 'dist'));
const bundled = ['commander', 'smol-toml', 'yaml'];

const { version, license, dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
  license: string;
  dependencies: Record<string, string>;
};

const staged = mkdtempSync(join(tmpdir(), 'headrace-cli-'));
const place = join(staged, 'package');
try {
  const copied = new Set<string>();
  copy(join(root, 'src/commands/main.ts'), copied);
  // What the sandbox of `exec` needs beside its modules.
  for (const folder of ['src/runner/sandbox', 'src/runner/images'])
    cpSync(join(root, folder), join(place, folder), { recursive: true, filter: isHelper });
  put(
    'bin/headrace.js',
    `#!/usr/bin/env node
import { main } from '../src/commands/main.js';

process.umask(0o077);
await main(process.argv.slice(2));
`,
  );
  const described = {
    name: 'headrace-cli',
    version,
    description: 'The command line of Headrace for developers',
    license,
    type: 'module',
    bin: { headrace: 'bin/headrace.js' },
    man: 'headrace.1',
    engines: { node: '>=24' },
    dependencies: Object.fromEntries(bundled.map((name) => [name, dependencies[name]])),
    bundleDependencies: bundled,
  };
  put('package.json', `${JSON.stringify(described, undefined, 2)}\n`);
  put('headrace.1', manual(version));
  cpSync(join(root, 'LICENSE'), join(place, 'LICENSE'));
  cpSync(join(root, 'docs/command-line.md'), join(place, 'README.md'));
  for (const name of bundled)
    cpSync(join(root, 'node_modules', name), join(place, 'node_modules', name), { recursive: true });
  mkdirSync(out, { recursive: true });
  const file = join(out, `headrace-cli-${version}.tgz`);
  execFileSync('tar', ['-C', staged, '--owner=0', '--group=0', '--mode=u=rwX,go=rX', '-czf', file, 'package']);
  console.log(file);
} finally {
  rmSync(staged, { recursive: true, force: true });
}

/** Programs in Perl, and filters for system calls. */
function isHelper(path: string): boolean {
  return statSync(path).isDirectory() || /\.(?:pl|bpf)$/.test(path);
}

function put(name: string, text: string): void {
  mkdirSync(dirname(join(place, name)), { recursive: true });
  writeFileSync(join(place, name), text, { mode: name.startsWith('bin/') ? 0o755 : 0o644 });
}

/** A file and what it imports. */
function copy(file: string, copied: Set<string>): void {
  if (copied.has(file)) return;
  copied.add(file);
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  const specifier = /((?:from\s*|import\s*\(\s*|import\s+)['"])(\.[^'"]+)\.ts(['"])/g;
  for (const [, , target = ''] of code.matchAll(specifier)) copy(`${resolve(dirname(file), target)}.ts`, copied);
  put(relative(root, file).replace(/\.ts$/, '.js'), code.replaceAll(specifier, '$1$2.js$3'));
}
