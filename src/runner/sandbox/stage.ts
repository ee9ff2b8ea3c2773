import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { NO_WORKSPACE, PLACES } from './types.ts';
import { BENCH, type Workbench } from './workbench.ts';

/**
 * The stage of a run: the root of what its sandbox sees, laid out on the bench.
 *
 * A sandbox is opened on it before anybody knows what will run there. What a run needs, its workspace, its directories and
 * its software, is mounted on the stage once the run comes, and shows in the waiting sandbox at once, because the kernel
 * passes mounts on from a shared file system to those that were bound from it. Nothing passes the other way.
 */
export interface Stage {
  /** Where the bench has it. */
  readonly root: string;
  /** Where the bench has a place of the sandbox. */
  at(place: string): string;
}

export async function setStage(bench: Workbench, name: string): Promise<Stage> {
  const root = join(BENCH, name);
  const { directories, links } = ofTheMachine();
  const own = ['/etc', '/dev', '/proc', '/tmp', '/run', '/var', '/home', PLACES.home, PLACES.workspace];
  await bench.stage(root, {
    directories: [...own, join(PLACES.workspace, NO_WORKSPACE), ...directories],
    links: { ...links, 'var/run': '/run', 'var/tmp': '/tmp' },
  });
  return { root, at: (place) => join(root, place) };
}

/** Where the machine has its programs and libraries. */
const PROGRAMS = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

/** On merged-/usr systems most of these are links; they must be links for the build too, or paths change their meaning. */
export function ofTheMachine(): { directories: string[]; links: Record<string, string> } {
  const directories: string[] = [];
  const links: Record<string, string> = {};
  for (const name of PROGRAMS) {
    const found = lstatSync(join('/', name), { throwIfNoEntry: false });
    if (found?.isSymbolicLink()) links[name] = readlinkSync(join('/', name));
    else if (found) directories.push(name);
  }
  return { directories, links };
}
