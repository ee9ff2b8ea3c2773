import type { ImageBuildsOrder } from '../shared/protocol/index.ts';
import { CannotRunError } from './cannot-run.ts';
import { idsOfRun, rootUser, type Job, type Sandboxes } from './sandbox/types.ts';

/** The right to user namespaces and mounts (decision 0134), and the settings that buildah and podman need for it. */
export type ImageBuild = Required<Pick<Job, 'buildsImages' | 'files' | 'environment'>> & Pick<Job, 'user'>;

/** Throws if this runner cannot build images, or its operator forbids it. */
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
      'This runner cannot run builds that make images: it has no user IDs to give them. For that, it must be root and isolate builds.',
    );
}

/** In memory, and removed with the sandbox. */
const authFile = '/dev/shm/registry-auth.json';
const storageFile = '/run/containers-storage.conf';

/**
 * The kernel overlays the layers, in a directory that is no overlay itself. Mounts in a build are locked, so it cannot
 * mount a new proc file system. `BUILDAH_ISOLATION=chroot` needs none.
 */
const storage = `[storage]
driver = "overlay"
graphroot = "/run/containers/storage"
runroot = "/run/containers/run"
`;

const others = `root:1:${idsOfRun - 1}\n`;

/** `inside` is the image part of the build's job. Without an image, the build is root over the machine's programs. */
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
      // Exists even without passwords, because a shell in the failed build still has REGISTRY_AUTH_FILE set.
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

export function secretsIn({ registries }: ImageBuildsOrder): string[] {
  return registries.flatMap((registry) => [registry.password, encoded(registry)]);
}
