import { chownSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { topsOverImages } from './etc.ts';
import { helperDirectory, type RunNamespaces } from './mount-helper.ts';
import type { RunDirectories, RunDirectory } from './run-directories.ts';
import type { Identity } from './types.ts';

/** The files of an image as one run sees and changes them: an overlay, whose top layer is the run's own. */
export interface ImageOverlay {
  /**
   * Makes the overlay of an image that the run will probably want, which costs a run more than all else about an image.
   * Nothing of it is visible in the sandbox. If the run wants another image, or none, it has not been made for it.
   */
  prepare(tree: string): void;
  /** Shows it in the sandbox, which must be settled. When one of the requests fails, the sandbox is of no use any more. */
  show(image: ShownImage): Promise<Promise<void>[]>;
}

export interface ShownImage {
  tree: string;
  /** Layers over the files of the image, bound in the run's namespaces, later ones on top. */
  layers: readonly string[];
  /** Directories that stand over the image's files: a link that it has there leads nowhere. */
  directories: readonly string[];
}

interface Options {
  namespaces: RunNamespaces;
  directories: RunDirectories;
  /** The layer over the files of every image. */
  overImages: string;
  /** The owner of the run's files on disk. */
  owner: Identity;
}

const [place, boundTree, over] = ['image', 'tree', 'over'].map((name) => join(helperDirectory, name)) as Three;
type Three = [string, string, string];

export function openImageOverlay({ namespaces, directories, overImages, owner }: Options): ImageOverlay {
  let prepared: { tree: string; made: Promise<boolean> } | undefined;

  const mount = (tree: string, layers: readonly string[], work: RunDirectory): Promise<void>[] => {
    directories.make('image-changes');
    directories.make(work);
    const upper = { directory: directories.mapped('image-changes'), work: directories.mapped(work) };
    return [
      namespaces.bind(overImages, over, 'ro', 'mapped'),
      namespaces.bind(tree, boundTree, 'ro', 'mapped'),
      namespaces.overlay(place, { lower: [boundTree, over, ...layers], upper }),
    ];
  };
  const unmount = (): Promise<void>[] => [place, boundTree, over].map((path) => namespaces.unmount(path));
  const makeWay = (folder: string, path: string): void => {
    let way = folder;
    for (const part of path.split('/').slice(1)) {
      way = join(way, part);
      if (existsSync(way)) continue;
      mkdirSync(way, { mode: 0o755 });
      chownSync(way, owner.uid, owner.gid);
    }
  };
  const isPrepared = async ({ tree, layers, directories }: ShownImage): Promise<boolean> =>
    prepared !== undefined &&
    layers.length + directories.length === 0 &&
    prepared.tree === identityOf(tree) &&
    (await prepared.made);

  return {
    prepare: (tree) => {
      const identity = identityOf(tree);
      if (identity === undefined) return;
      const made = Promise.all(mount(tree, [], 'image-work')).then(
        () => true,
        () => false,
      );
      prepared = { tree: identity, made };
    },
    show: async (image) => {
      const tops = [...topsOverImages, ...image.directories.map((path) => path.split('/')[1] ?? '')];
      const shown = (): Promise<void> => namespaces.image(place, image.tree, tops);
      if (await isPrepared(image)) return [shown()];
      // An overlay takes no work directory in which another one has worked.
      const unmounted = prepared ? unmount() : [];
      const changes = directories.make('image-changes');
      if (image.directories.length > 0) await Promise.all([directories.settled(), ...unmounted]);
      for (const path of image.directories) makeWay(changes, path);
      return [...unmounted, ...mount(image.tree, image.layers, prepared ? 'image-work-again' : 'image-work'), shown()];
    },
  };
}

/** The files of an image that was removed and unpacked again stand at the same path, and are others. */
function identityOf(tree: string): string | undefined {
  const found = statSync(tree, { bigint: true, throwIfNoEntry: false });
  return found && `${tree} ${found.ino} ${found.ctimeNs}`;
}
