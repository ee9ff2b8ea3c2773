import { join } from 'node:path';
import { helperDirectory, type OverlayLayers, type RunNamespaces } from './mount-helper.ts';
import type { RunDirectories } from './run-directories.ts';

/** What an overlay over the files of an image is made of, beside these files. */
export interface ImageParts {
  /** The layer over the files of every image, as the run sees it. */
  over: string;
  upper: NonNullable<OverlayLayers['upper']>;
  /** The runner's path of the upper directory. */
  changes: string;
}

/** A bind that fails is not told here: the overlay that needs it fails. */
export function makeImageParts(namespaces: RunNamespaces, directories: RunDirectories, overImages: string): ImageParts {
  const changes = directories.make('image-changes');
  directories.make('image-work');
  const over = join(helperDirectory, 'over');
  namespaces.bind(overImages, over, 'ro', 'mapped').catch(() => {});
  return {
    over,
    upper: { directory: directories.mapped('image-changes'), work: directories.mapped('image-work') },
    changes,
  };
}
