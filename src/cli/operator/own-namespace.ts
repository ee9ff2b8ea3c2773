import { run } from '../../shared/lib/processes.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';
import { extentsOf } from '../../runner/sandbox/own-ids.ts';
import { idsOfRun } from '../../runner/sandbox/types.ts';

/**
 * Root of a container may neither mount nor make a network, as root of a machine may. It may do both in a user namespace,
 * as an ordinary user does. So its runner goes into one as a whole, and takes IDs for builds along
 * (runner/sandbox/own-ids.ts): builds are not root of the container then.
 */
const first = 1_900_000_000;
/** More ranges than a container has runners. They lie below the numbers of a runner that is root of the machine. */
const count = 64 * idsOfRun;

/** Goes there, as another program in the place of this one: it does not return then. Otherwise it says why it cannot. */
export async function enterOwnNamespace(): Promise<string> {
  if (!['uid_map', 'gid_map'].every(isMapped)) return `this container has no user IDs from ${first} on`;
  const map = `0 0 1,1 ${first} ${count}`;
  const words = [sourceFile('cli/operator/own-namespace.pl'), process.arch, map, map];
  const tried = await run('perl', [...words, 'true']);
  if (tried.status !== 0) return tried.stderr.toString().trim();
  const same = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.('/usr/bin/env', ['env', 'perl', ...words, ...same], process.env);
  return 'this Node cannot start another program in its place';
}

function isMapped(map: string): boolean {
  return extentsOf(map).some((extent) => extent.first <= first && first + count <= extent.first + extent.count);
}
