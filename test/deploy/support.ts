import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { lacks } from '../support/machine.ts';

export const project = join(import.meta.dirname, '../..');

/** The large ones take minutes: `npm test -- --large`. */
export const large = {
  skip: lacks('mounts') || (process.env.TEST_LARGE === undefined && 'takes minutes; run with --large'),
};

/** Runs a program that has to succeed, and answers what it printed. */
export async function done(program: string, ...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await run(program, args);
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${stdout.toString()}${stderr.toString()}`);
  return stdout.toString();
}

export function said({ stdout, stderr }: Finished): string {
  return stdout.toString() + stderr.toString();
}

/** Makes the package of this working copy in a folder, and answers its file. */
export async function makePackage(folder: string, version: string): Promise<string> {
  const flags = ['--version', version, '--out', folder, '--compression', 'none'];
  const printed = await done(join(project, 'scripts/make-package'), ...flags);
  return printed.trim().split('\n').at(-1) ?? '';
}

/** What a unit says under a key, once for each time it does. */
export function inUnit(unit: string, key: string): string[] {
  const text = readFileSync(join(project, 'deploy/systemd', unit), 'utf8');
  const places: Record<string, string> = { '%S': '/var/lib', '%C': '/var/cache' };
  return Array.from(text.matchAll(new RegExp(`^${key}=(.*)$`, 'gm')), ([, value = '']) =>
    value.replaceAll(/%[SC]/g, (place) => places[place] ?? place),
  );
}
