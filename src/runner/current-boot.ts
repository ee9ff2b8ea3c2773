import { readFile } from 'node:fs/promises';

/** Names the time since the machine started: a tree that was not flushed before another start may have lost bytes. */
export async function currentBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
