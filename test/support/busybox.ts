import { cp, mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Linked statically, so that it runs in an image that holds nothing else. */
export const busybox = '/bin/busybox';

/** Gives the unpacked files of an image these programs. */
export async function putPrograms(image: string, names: readonly string[]): Promise<void> {
  await mkdir(join(image, 'bin'), { recursive: true });
  await cp(busybox, join(image, 'bin/busybox'));
  for (const name of names) await symlink('busybox', join(image, 'bin', name));
}
