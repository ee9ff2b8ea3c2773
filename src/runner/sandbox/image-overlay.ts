import { chownSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { topsOverImages } from './etc.ts';
import { helperDirectory, type RunNamespaces } from './mount-helper.ts';
import type { RunDirectories } from './run-directories.ts';
import type { Identity } from './types.ts';

/** The files of an image as one run sees and changes them: an overlay, whose top layer is the run's own. */
export interface ImageOverlay {
  /** Shows it in the sandbox, which must be settled. When one of the requests fails, the sandbox is of no use any more. */
  show(image: ShownImage): Promise<Promise<void>[]>;
}

export interface ShownImage {
  tree: string;
  /** Layers below and above the files of the image, bound in the run's namespaces. */
  layers: { below: readonly string[]; above: readonly string[] };
  /** Directories that stand over the image's files: a link that it has there leads nowhere. */
  directories: readonly string[];
}

interface Options {
  /** The folder of the run. */
  folder: string;
  namespaces: RunNamespaces;
  directories: RunDirectories;
  /** The layer over the files of every image. */
  overImages: () => string;
  /** Who owns what belongs to root in the image, on disk. */
  owner: Identity;
}

const [place, boundTree, over, own] = ['image', 'tree', 'over', 'own-image'].map((name) =>
  join(helperDirectory, name),
) as [string, string, string, string];

export function openImageOverlay({ folder, namespaces, directories, overImages, owner }: Options): ImageOverlay {
  const makeWay = (path: string): void => {
    let way = directories.make('image-changes');
    for (const part of path.split('/').slice(1)) {
      way = join(way, part);
      if (existsSync(way)) continue;
      mkdirSync(way, { mode: 0o755 });
      chownSync(way, owner.uid, owner.gid);
    }
  };
  return {
    show: async ({ tree, layers: { below, above }, directories: ways }) => {
      directories.make('image-changes');
      directories.make('image-work');
      if (ways.length > 0) await directories.settled();
      ways.forEach(makeWay);
      const tops = [...topsOverImages, ...ways.map((path) => path.split('/')[1] ?? '')];
      // What the run changes in the image belongs to users of the image, so it stands in a view of its own.
      const upper = { directory: join(own, 'image-changes'), work: join(own, 'image-work') };
      return [
        namespaces.bind(folder, own, 'rw', 'image'),
        namespaces.bind(overImages(), over, 'ro', 'image'),
        namespaces.bind(tree, boundTree, 'ro', 'image'),
        namespaces.overlay(place, { lower: [...below, boundTree, over, ...above], upper }),
        // With something below it, there may be more at the top than the image has.
        below.length > 0 ? namespaces.image(place, place, '', tops) : namespaces.image(place, boundTree, tree, tops),
      ];
    },
  };
}
