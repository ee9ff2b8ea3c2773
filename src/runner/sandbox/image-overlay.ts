import { chownSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { helperDirectory } from './mount-helper.ts';
import type { Sandbox } from './sandbox.ts';
import type { Identity } from './types.ts';

export interface ShownImage {
  tree: string;
  overImages: string;
  /** The owner on disk of files that belong to root in the image. */
  owner: Identity;
  /** Layers below and above the image's files, bound in the run's namespaces. */
  layers: { below: readonly string[]; above: readonly string[] };
  /** Directories to make over the image's files, so that no link of the image at their paths is followed. */
  directories: readonly string[];
  /** The image is shown already, with fewer layers. */
  isAgain: boolean;
}

export const imagesOwn = join(helperDirectory, 'own-image');
const own = imagesOwn;
const [place, boundTree, over] = ['image', 'tree', 'over'].map((name) => join(helperDirectory, name)) as [
  string,
  string,
  string,
];

/** The sandbox must be settled. If one of the requests fails, the sandbox is unusable. */
export async function showImage(
  { folder, namespaces, directories }: Pick<Sandbox, 'folder' | 'namespaces' | 'directories'>,
  { tree, overImages, owner, layers: { below, above }, directories: ways, isAgain }: ShownImage,
): Promise<Promise<void>[]> {
  const changes = directories.make('image-changes');
  directories.make('image-work');
  if (ways.length > 0) await directories.settled();
  for (const path of ways) makeWay(changes, path, owner);
  // The run's changes belong to users of the image, so the overlay uses a mount of the folder with the image's owners.
  const upper = { directory: join(own, 'image-changes'), work: join(own, 'image-work') };
  const first = (): Promise<void>[] => [
    namespaces.bind(folder, own, 'rw', 'image'),
    namespaces.bind(overImages, over, 'ro', 'image'),
    namespaces.bind(tree, boundTree, 'ro', 'image'),
  ];
  return [
    ...(isAgain ? [] : first()),
    namespaces.overlay(place, { lower: [...below, boundTree, over, ...above], upper }),
    namespaces.image(place, isAgain ? 'again' : undefined),
  ];
}

function makeWay(top: string, path: string, owner: Identity): void {
  let way = top;
  for (const part of path.split('/').slice(1)) {
    way = join(way, part);
    if (existsSync(way)) continue;
    mkdirSync(way, { mode: 0o755 });
    chownSync(way, owner.uid, owner.gid);
  }
}
