import { chownSync, existsSync, lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { topsOverImages } from './etc.ts';
import { helperDirectory, type RunNamespaces } from './mount-helper.ts';
import type { RunDirectories, RunDirectory } from './run-directories.ts';
import type { Identity } from './types.ts';

/** The files of an image as one run sees and changes them: an overlay, whose top layer is the run's own. */
export interface ImageOverlay {
  /**
   * Makes what a run in an image needs, before it comes. With the files of an image, it also makes the overlay, which costs
   * a run more than all else; a run that turns out to want something else makes its own. Nothing is visible in the sandbox.
   */
  prepare(tree?: string): void;
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

const place = join(helperDirectory, 'image');
const boundTree = join(helperDirectory, 'tree');
const over = join(helperDirectory, 'over');

export function openImageOverlay({ namespaces, directories, overImages, owner }: Options): ImageOverlay {
  let hasParts = false;
  let prepared: { tree: string; made: Promise<boolean> } | undefined;

  /** What every image needs. A bind that fails is not reported here: the overlay that needs it fails. */
  const makeParts = (): void => {
    if (hasParts) return;
    hasParts = true;
    directories.make('image-changes');
    directories.make('image-work');
    namespaces.bind(overImages, over, 'ro', 'mapped').catch(() => {});
  };
  const mount = (tree: string, layers: readonly string[], work: RunDirectory): Promise<void>[] => {
    directories.make(work);
    const upper = { directory: directories.mapped('image-changes'), work: directories.mapped(work) };
    return [
      namespaces.bind(tree, boundTree, 'ro', 'mapped'),
      namespaces.overlay(place, { lower: [boundTree, over, ...layers], upper }),
    ];
  };
  const makeWay = (path: string): void => {
    let way = directories.make('image-changes');
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
      makeParts();
      if (tree === undefined) return;
      const identity = identityOf(tree);
      if (identity === undefined) return; // it was removed
      const made = Promise.all(mount(tree, [], 'image-work')).then(
        () => true,
        () => false,
      );
      prepared = { tree: identity, made };
    },
    show: async (image) => {
      const tops = [...topsOverImages, ...image.directories.map((path) => path.split('/')[1] ?? '')];
      const shown = (): Promise<void> => namespaces.image(place, boundTree, image.tree, tops);
      if (await isPrepared(image)) return [shown()];
      makeParts();
      const unmounted = prepared ? [place, boundTree].map((path) => namespaces.unmount(path)) : [];
      if (image.directories.length > 0) await Promise.all([directories.settled(), ...unmounted]);
      image.directories.forEach(makeWay);
      // An overlay takes no work directory in which another one has worked.
      const work = prepared ? 'image-work-again' : 'image-work';
      return [...unmounted, ...mount(image.tree, image.layers, work), shown()];
    },
  };
}

/** The files of an image that was removed and unpacked again stand at the same path, and are others. */
function identityOf(tree: string): string | undefined {
  const found = lstatSync(tree, { bigint: true, throwIfNoEntry: false });
  return found && `${tree} ${found.ino} ${found.ctimeNs}`;
}
