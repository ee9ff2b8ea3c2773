import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { manual } from '../src/cli/developer/manual.ts';

/** The package has one file with the commands and the packages that they use, and the helpers of `exec`'s sandbox. */
const root = resolve(import.meta.dirname, '..');
const out = resolve(process.argv[2] ?? join(root, 'dist'));
const { version, license } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<string, string>;

const program = `import { main } from './src/cli/developer/main.ts';
process.umask(0o077);
await main(process.argv.slice(2));
`;
const banner = `#!/usr/bin/env node
import { createRequire as toRequire } from 'node:module'; const require = toRequire(import.meta.url);`;

const staged = mkdtempSync(join(tmpdir(), 'headrace-cli-'));
const place = join(staged, 'package');
try {
  mkdirSync(join(place, 'licenses'), { recursive: true });
  const parts = join(staged, 'parts.json');
  execFileSync(
    join(root, 'node_modules/@esbuild', `linux-${process.arch}`, 'bin/esbuild'),
    [
      '--bundle',
      '--platform=node',
      '--format=esm',
      '--target=node24',
      '--loader=ts',
      '--log-level=error',
      '--define:wayToSources="../src"',
      `--banner:js=${banner}`,
      `--metafile=${parts}`,
      `--outfile=${join(place, 'bin/headrace.js')}`,
    ],
    { cwd: root, input: program },
  );
  for (const name of packagesIn(readFileSync(parts, 'utf8'))) copyLicense(name);
  for (const helpers of ['src/runner/sandbox', 'src/runner/proxy-relay.pl'])
    cpSync(join(root, helpers), join(place, helpers), { recursive: true, filter: isHelper });
  const described = {
    name: 'headrace-cli',
    version,
    description: 'The command line of Headrace for developers',
    license,
    type: 'module',
    bin: { headrace: 'bin/headrace.js' },
    man: 'headrace.1',
    engines: { node: '>=24' },
  };
  writeFileSync(join(place, 'package.json'), `${JSON.stringify(described, undefined, 2)}\n`);
  writeFileSync(join(place, 'headrace.1'), manual(version ?? ''));
  cpSync(join(root, 'LICENSE'), join(place, 'LICENSE'));
  cpSync(join(root, 'docs/command-line.md'), join(place, 'README.md'));
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

function packagesIn(metafile: string): Set<string> {
  const { inputs } = JSON.parse(metafile) as { inputs: Record<string, unknown> };
  const names = Object.keys(inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

/** A package may be distributed only with its licence. */
function copyLicense(name: string): void {
  const folder = join(root, 'node_modules', name);
  const [file] = readdirSync(folder).filter((one) => /^licen[cs]e/i.test(one));
  if (file === undefined) throw new Error(`${name} has no licence`);
  cpSync(join(folder, file), join(place, 'licenses', name.replace('/', '-')));
}
