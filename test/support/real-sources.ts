import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';

/** Source archives of real software, as published. They are fetched once and kept beside the packages. */
const shelf = join(import.meta.dirname, '../../node_modules/.cache/test-sources');

/** The upstream archive in Debian's source package of that name. */
export async function debianSource(name: string): Promise<Buffer> {
  return kept(`${name}.orig`, async (folder) => {
    const options = aptOptions(folder);
    await succeed('apt-get', ['update', ...options], folder);
    await succeed('apt-get', ['source', '--download-only', ...options, name], folder);
    const archive = readdirSync(folder).find((file) => /\.orig\.tar\.\w+$/.test(file));
    return join(folder, archive ?? 'there is none');
  });
}

/** A package of the npm registry, as it is packed there. */
export async function npmPackage(spec: string): Promise<Buffer> {
  return kept(spec.replaceAll(/\W+/g, '-'), async (folder) => join(folder, await pack(spec, folder)));
}

/** A file inside a package of the npm registry. */
export async function npmSource(spec: string, file: string): Promise<Buffer> {
  return kept(`${spec}-${file}`.replaceAll(/\W+/g, '-'), async (folder) => {
    await succeed('tar', ['-xzf', await pack(spec, folder)], folder);
    return join(folder, 'package', file);
  });
}

async function pack(spec: string, folder: string): Promise<string> {
  await succeed('npm', ['pack', '--silent', spec], folder);
  return readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? 'there is none';
}

/** Options for apt to get sources from the machine's own mirrors, without changing its package lists. */
function aptOptions(folder: string): string[] {
  const parts = join(folder, 'parts');
  cpSync('/etc/apt/sources.list.d', parts, { recursive: true });
  if (existsSync('/etc/apt/sources.list')) cpSync('/etc/apt/sources.list', join(parts, 'main.list'));
  for (const file of readdirSync(parts)) {
    const path = join(parts, file);
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replaceAll(/^Types: .*$/gm, 'Types: deb-src').replaceAll(/^deb /gm, 'deb-src '));
  }
  mkdirSync(join(folder, 'lists', 'partial'), { recursive: true });
  const settings = {
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': parts,
    'Dir::State::lists': join(folder, 'lists'),
    'Dir::Cache::pkgcache': '',
    'Dir::Cache::srcpkgcache': '',
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
}

async function kept(name: string, fetch: (folder: string) => Promise<string>): Promise<Buffer> {
  const path = join(shelf, name);
  if (existsSync(path)) return readFileSync(path);
  const folder = mkdtempSync(join(tmpdir(), 'headrace-sources-'));
  try {
    const fetched = await fetch(folder);
    mkdirSync(shelf, { recursive: true });
    const whole = join(shelf, `.${name}-${basename(folder)}`);
    cpSync(fetched, whole);
    renameSync(whole, path);
    return readFileSync(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function succeed(program: string, args: string[], cwd: string): Promise<void> {
  const { status, stderr } = await run(program, args, { cwd });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr.toString()}`);
}
