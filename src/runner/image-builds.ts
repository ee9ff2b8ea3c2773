import type { ImageBuildsOrder } from '../shared/protocol/index.ts';
import { CannotRunError } from './cannot-run.ts';
import { idsOfRun, rootUser, type Job, type Sandboxes } from './sandbox/types.ts';

/**
 * What a build has that makes images, besides what every build has: the right to make user namespaces and mounts
 * (decision 0134), and what lets buildah and podman do so without being told how.
 */
export type ImageBuild = Required<Pick<Job, 'buildsImages' | 'files' | 'environment'>> & Pick<Job, 'user'>;

/** Throws where this runner cannot do it, or its operator does not allow it. */
export function refuseImageBuilds(
  { hasManyUsers, translatesOwners }: Pick<Sandboxes, 'hasManyUsers' | 'translatesOwners'>,
  isForbidden?: boolean,
): void {
  if (isForbidden)
    throw new CannotRunError(
      'image_builds_off',
      'The operator of this runner does not let builds make images (HEADRACE_IMAGE_BUILDS).',
    );
  if (!hasManyUsers || !translatesOwners)
    throw new CannotRunError(
      'image_builds_not_possible',
      'This runner cannot run builds that make images: it has no user IDs of their own to give them. For that it has to be root, and to isolate builds.',
    );
}

/** In memory, and gone with the sandbox. */
const authFile = '/dev/shm/registry-auth.json';
const storageFile = '/run/containers-storage.conf';

/**
 * Layers of images are laid over each other by the kernel, in a directory that is never such an overlay itself. All that
 * a build sees was locked by the kernel, so no other process file system can be mounted: `chroot` does without.
 */
const storage = `[storage]
driver = "overlay"
graphroot = "/run/containers/storage"
runroot = "/run/containers/run"
`;

/** The IDs that root of the sandbox can give away: all but its own. */
const others = `root:1:${idsOfRun - 1}\n`;

/** `inside` is what the build has of its image; without one it is root over the machine's programs. */
export function imageBuild(
  inside: Pick<Job, 'image' | 'user'> = { user: rootUser },
  order?: ImageBuildsOrder,
): ImageBuild {
  const { image, user } = inside;
  const registries = order?.registries ?? [];
  const isRootInImage = image !== undefined && user?.uid === 0;
  return {
    buildsImages: true,
    user,
    files: {
      [storageFile]: storage,
      ...(isRootInImage && { '/etc/subuid': others, '/etc/subgid': others }),
      // Also without passwords, for what asks for it by the name that a build had (a shell in one that failed).
      [authFile]: JSON.stringify({ auths: Object.fromEntries(registries.map(entryOf)) }),
    },
    environment: {
      BUILDAH_ISOLATION: 'chroot',
      CONTAINERS_STORAGE_CONF: storageFile,
      ...(registries.length > 0 && { REGISTRY_AUTH_FILE: authFile }),
    },
  };
}

type Registry = ImageBuildsOrder['registries'][number];

const encoded = ({ username, password }: Registry): string => Buffer.from(`${username}:${password}`).toString('base64');

function entryOf(registry: Registry): [host: string, entry: { auth: string }] {
  return [registry.host, { auth: encoded(registry) }];
}

/** What must not be seen in a log: passwords, and what stands for them in the file. */
export function secretsIn({ registries }: ImageBuildsOrder): string[] {
  return registries.flatMap((registry) => [registry.password, encoded(registry)]);
}
