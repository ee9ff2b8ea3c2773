import { readFile } from 'node:fs/promises';

/** Identifies this start of the machine. A tree that was not flushed before a restart may have lost bytes. */
export async function currentBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}
