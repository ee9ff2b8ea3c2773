import { run } from '../../shared/lib/processes.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';
import { extentsOf } from '../../runner/sandbox/own-ids.ts';
import { idsOfRun } from '../../runner/sandbox/types.ts';

/**
 * Root of a container may not mount or make a network, but may do so in a user namespace. So its whole runner enters
 * one, with IDs for builds (runner/sandbox/own-ids.ts). Builds then are not root of the container.
 */
const first = 1_900_000_000;
/** More ranges than a container has runners, below the numbers of a runner that is root of the machine. */
const count = 64 * idsOfRun;

/** Replaces this process with another program in the namespace. Returns only if that is impossible, with the reason. */
export async function enterOwnNamespace(): Promise<string> {
  if (!['uid_map', 'gid_map'].every(isMapped)) return `this container has no user IDs from ${first} on`;
  const map = `0 0 1,1 ${first} ${count}`;
  const args = [sourceFile('cli/operator/own-namespace.pl'), process.arch, map, map];
  const tried = await run('perl', [...args, 'true']);
  if (tried.status !== 0) return tried.stderr.toString().trim();
  const same = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.('/usr/bin/env', ['env', 'perl', ...args, ...same], process.env);
  return 'this Node cannot replace itself with another program';
}

function isMapped(map: string): boolean {
  return extentsOf(map).some((extent) => extent.first <= first && first + count <= extent.first + extent.count);
}
