import { createHash } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openTreeStore, type HeldTree, type Making, type TreeStore } from '../tree-store.ts';
import type { ImageConfiguration } from './configuration.ts';

/**
 * Unpacked images by registry and digest. With the digest only, a hostile registry could give out other registries'
 * images. An image's `accounts` folder records which account last had it under which reference.
 */
export interface ImageStore extends Pick<TreeStore<ImageFacts>, 'makeRoom'> {
  /** If the image is not here, `bring` makes it. The image stays until the result is disposed of. */
  hold(wanted: Wanted, signal: AbortSignal): Promise<HeldImage>;
  holdIfHere(host: string, digest: string): HeldImage | undefined;
  /** The digest that this account last had under a reference, if that image is still here. */
  lastOf(account: string, reference: string): string | undefined;
  noteLast(account: string, reference: string, image: HeldImage): Promise<void>;
  forgetLast(account: string, reference: string): Promise<void>;
  /** A named variant of an image. If it is missing, `make` creates its files and returns their size. */
  variant(image: HeldImage, name: string, make: MakeVariant, signal: AbortSignal): Promise<HeldImage>;
}

type MakeVariant = (into: string, signal: AbortSignal) => Promise<number>;

export interface Wanted {
  host: string;
  digest: string;
  /** Simultaneous requests share a fetch only if they have the same `account`. */
  account: string;
  bring: (making: Making, signal: AbortSignal) => Promise<Brought>;
}

export interface Brought {
  bytes: number;
  configuration: ImageConfiguration;
}

export interface HeldImage extends Disposable, Brought {
  name: string;
  digest: string;
  tree: string;
  folder: string;
}

interface ImageFacts extends Brought {
  digest: string;
}

const hash = (...parts: string[]): string => createHash('sha256').update(parts.join('\n')).digest('hex');
const notesIn = (folder: string): string => join(folder, 'accounts');
export const treeOf = (folder: string): string => join(folder, 'tree');

export async function openImageStore(
  folder: string,
  mostBytes: number,
  log: (message: string) => void,
): Promise<ImageStore> {
  /** The name of the image that an account last had under a reference. The key is a hash of both. */
  const last = new Map<string, string>();
  const onGone = ({ name }: { name: string }): void => {
    for (const [note, of] of last) if (of === name) last.delete(note);
  };
  const parts = ['tree'];
  const store = await openTreeStore<ImageFacts>({ folder, outlives: 'restarts', parts, mostBytes, onGone, log });
  for (const { name, path } of store.all())
    for (const note of await readdir(notesIn(path)).catch(() => [])) last.set(note, name);

  const heldImage = (held: HeldTree<ImageFacts>): HeldImage => ({
    ...held.facts,
    name: held.name,
    folder: held.path,
    tree: treeOf(held.path),
    [Symbol.dispose]: () => held[Symbol.dispose](),
  });
  const holdIfHere: ImageStore['holdIfHere'] = (host, digest) => {
    const held = store.hold(hash(host, digest));
    return held && heldImage(held);
  };
  const dropNote = async (note: string, name: string | undefined): Promise<void> => {
    const image = name === undefined ? undefined : store.get(name);
    if (image) await rm(join(notesIn(image.path), note), { force: true });
  };

  return {
    makeRoom: store.makeRoom,
    async hold({ host, digest, account, bring }, signal) {
      const make = async (making: Making, ending: AbortSignal): Promise<ImageFacts> => {
        await mkdir(notesIn(making.tree), { mode: 0o700 });
        return { digest, ...(await bring(making, ending)) };
      };
      return heldImage(await store.take(hash(host, digest), make, signal, account));
    },
    holdIfHere,
    lastOf: (account, reference) => store.get(last.get(hash(account, reference)) ?? '')?.facts.digest,
    async noteLast(account, reference, { name, folder: of, digest }) {
      const note = hash(account, reference);
      const before = last.get(note);
      if (before === name) return;
      last.set(note, name);
      await writeFile(join(notesIn(of), note), digest, { mode: 0o600 });
      await dropNote(note, before);
    },
    async forgetLast(account, reference) {
      const note = hash(account, reference);
      const before = last.get(note);
      last.delete(note);
      await dropNote(note, before);
    },
    async variant({ name, digest, configuration }, variant, make, signal) {
      const made = async (making: Making, ending: AbortSignal): Promise<ImageFacts> => {
        using _image = store.hold(name); // the caller may stop waiting and release the image
        return { digest, configuration, bytes: await make(treeOf(making.tree), ending) };
      };
      return heldImage(await store.take(`${name}-${variant}`, made, signal));
    },
  };
}
