import { existsSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';

/** Programs that builds see: where they are, and which folders of the machine have to be shown for it beside `/usr`. */
export interface Toolchain {
  bin: string[];
  paths: string[];
}

/** Debian's toolchain of Rust, or one that was installed for this user. */
export async function rustToolchain(): Promise<Toolchain | undefined> {
  if (existsSync('/usr/bin/cargo')) return { bin: [], paths: [] };
  const found = await run('rustc', ['--print', 'sysroot']).catch(() => undefined);
  if (found?.status !== 0) return undefined;
  const sysroot = found.stdout.toString().trim();
  return { bin: [`${sysroot}/bin`], paths: [sysroot] };
}

/** Builds have these of their own, so nothing in the machine's can be shown to them. */
const hidden = ['/tmp/', '/var/tmp/', '/run/', '/dev/'];

/**
 * The compiler of TypeScript that checks this project, with the Node that runs the tests; undefined if builds cannot be
 * shown the working copy that they are in.
 */
export function typescriptToolchain(): Toolchain | undefined {
  const packages = resolve(import.meta.dirname, '../../node_modules');
  if (hidden.some((folder) => `${realpathSync(packages)}/`.startsWith(folder))) return undefined;
  const node = dirname(process.execPath);
  const isSeen = [`${packages}/`, '/usr/'].some((folder) => `${node}/`.startsWith(folder));
  return { bin: [`${packages}/.bin`, node], paths: isSeen ? [packages] : [packages, node] };
}
