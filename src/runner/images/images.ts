import { lstat, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../../shared/lib/error-code.ts';
import { isNoSpace, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { imageAddress, parseImageReference, type ImageReference } from '../../shared/domain/image-reference.ts';
import { publicAddressFilter } from '../../shared/lib/address-filter.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { createResolve } from '../../shared/lib/resolve.ts';
import { treeSize } from '../../shared/lib/tree-size.ts';
import type { TlsTrust } from '../../shared/lib/tls-trust.ts';
import type { ImageOrder, Link, RegistryAccess } from '../../shared/protocol/index.ts';
import { untilAnswered } from '../retry.ts';
import { present } from '../sandbox/machine.ts';
import { watchSize } from '../size-watch.ts';
import type { Making } from '../tree-store.ts';
import { buildUser, type Job, type RunUser, type Sandboxes } from '../sandbox/types.ts';
import { readConfiguration, whoRuns, withUsers } from './configuration.ts';
import { CannotRunError } from '../cannot-run.ts';
import { openImageStore, treeOf, type Brought, type HeldImage } from './image-store.ts';
import {
  digestOf,
  hasZstd,
  hexOf,
  layoutOf,
  plainDigests,
  plainLayerOf,
  readManifest,
  type Descriptor,
  type Manifest,
} from './manifest.ts';
import { openRegistryCheck } from './registry-check.ts';
import { readRegistryTrust } from './registry-trust.ts';
import { openImageTools, type RegistrySource } from './tools.ts';

/**
 * Each run looks up its image's reference with its account's credentials. So a stored image serves only accounts that
 * its registry permits. If the registry is unreachable, an account gets the image that it last had.
 */
export interface Images {
  take(order: ImageOrder, task: ImageTask): Promise<TakenImage>;
  /** The digest of the image that `take` would give. It pulls nothing. */
  lookUp(order: ImageOrder, task: Pick<ImageTask, 'id' | 'service' | 'signal'>): Promise<string>;
  /** The exact image that a run of this account had, without a request to the registry. Throws if it was removed. */
  again(order: ImageOrder, digest: string, signal: AbortSignal): Promise<TakenImage>;
}

export interface ImageTask {
  id: string;
  service?: string;
  /** Whether only the image's ENTRYPOINT and CMD run, which need no shell. */
  isAsItIs?: boolean | undefined;
  writeLog: (text: string) => void | Promise<void>;
  signal: AbortSignal;
}

export type TakenImage = Pick<HeldImage, 'tree' | 'configuration' | 'digest'> &
  Disposable & {
    treeFor(user: RunUser): Promise<string>;
  };

export type InImage = Pick<Job, 'image' | 'user' | 'accounts'>;

/** `root` is the suite's setting. */
export async function inImage(
  { treeFor, configuration }: Pick<TakenImage, 'treeFor' | 'configuration'>,
  root?: boolean | null,
): Promise<InImage> {
  const user = whoRuns(configuration, root);
  const { accounts } = configuration;
  return { image: await treeFor(user), user, ...(user.uid === buildUser.uid && accounts && { accounts }) };
}

export interface ImagesOptions {
  folder: string;
  /** The folder for the tools' sockets. No other user may enter it. */
  sockets: string;
  link: Pick<Link, 'registry'>;
  /** `toolSandboxes` have no network. */
  sandboxes: Pick<Sandboxes, 'whyNoImages'>;
  toolSandboxes: Sandboxes;
  /** Private address ranges with permitted registries. */
  allow: readonly string[];
  /** Certificates in addition to the machine's configuration for containers. */
  trust?: TlsTrust | undefined;
  /** The largest image, and the limit on all images together. Only unused ones are removed. */
  imageBytes: number;
  mostBytes: number;
  timeoutMs: number;
  disk: Pick<DiskReserve, 'allows'>;
  log: (message: string) => void;
}

export async function openImages(options: ImagesOptions): Promise<Images> {
  const { link, imageBytes, disk, timeoutMs, log } = options;
  const store = await openImageStore(options.folder, options.mostBytes, log);
  await mkdir(options.sockets, { recursive: true, mode: 0o700 });
  const rules = { mayCall: publicAddressFilter(options.allow), resolve: createResolve() };
  const registryCheck = openRegistryCheck(rules, readRegistryTrust({ added: options.trust?.added }));
  const tools = openImageTools({
    sandboxes: options.toolSandboxes,
    folder: options.sockets,
    rules,
    authorities: options.trust?.authorities(),
    timeoutMs,
    log,
  });

  const checked = async (source: RegistrySource, digest: string, signal: AbortSignal): Promise<Buffer> => {
    const bytes = await tools.fetchManifest(source, signal);
    if (digestOf(bytes) !== digest) throw mismatch(source.reference);
    return bytes;
  };

  const pull = async (
    source: RegistrySource,
    described: Buffer,
    { aside, tree: into }: Making,
    signal: AbortSignal,
  ): Promise<Brought> => {
    const first = readManifest(described);
    let digest = digestOf(described);
    if ('other' in first) digest = first.other;
    const pinned = { ...source, address: imageAddress(source.reference, digest) };
    const found = 'other' in first ? readManifest(await checked(pinned, digest, signal)) : first;
    if ('other' in found)
      throw new CannotRunError('image_invalid', 'The image cannot be used: an index refers to another index.');
    const { manifest } = found;
    const packed = manifest.layers.reduce((sum, { size }) => sum + size, manifest.config.size);
    if (packed > imageBytes) throw tooLarge(imageBytes);
    const hasRoom = (): Promise<boolean> => disk.allows(packed);
    await store.makeRoom(hasRoom);
    if (!(await hasRoom())) throw diskFull();
    const layout = join(aside, 'layout');
    const blobs = join(aside, 'blobs');
    const tree = treeOf(into);
    for (const path of [layout, join(layout, 'blobs'), blobs]) await mkdir(path, { mode: 0o755 });
    return withinBytes(aside, imageBytes, signal, async (bounds) => {
      const decompress = hasZstd(manifest);
      const document = await tools.copy(pinned, blobs, { part: hexOf(manifest.config.digest), decompress }, bounds);
      if (digestOf(document) !== manifest.config.digest) throw mismatch(source.reference);
      const read = readConfiguration(document);
      const layers = decompress ? await decompressedIn(blobs, plainDigests(document, manifest)) : manifest.layers;
      await compose(layout, blobs, { ...manifest, layers });
      const accounts = await tools.unpack(layout, tree, bounds);
      await removeTree(layout);
      const hasShell = await tools.hasShell(tree, bounds.signal);
      const configuration = { ...withUsers(read, accounts), ...(!hasShell && { lacksShell: true as const }) };
      return { configuration, bytes: await treeSize(into) };
    });
  };

  /** If mounts cannot translate owners, the run's user and the image's root swap numbers, and so must the files. */
  const givenTo = (image: HeldImage, user: RunUser, signal: AbortSignal): Promise<HeldImage> => {
    const hasRoom = (): Promise<boolean> => disk.allows(image.bytes);
    const make = async (into: string, ending: AbortSignal): Promise<number> => {
      await store.makeRoom(hasRoom);
      if (!(await hasRoom())) throw diskFull();
      await withinBytes(into, imageBytes, ending, (bounds) => tools.giveTo(user, image.tree, into, bounds));
      return treeSize(into);
    };
    return store.variant(image, `${user.uid}-${user.gid}`, make, signal);
  };
  const taken = (image: HeldImage, signal: AbortSignal): TakenImage => {
    const held = new DisposableStack();
    held.use(image);
    return {
      ...image,
      async treeFor(user) {
        const isRoot = user.uid === 0 && user.gid === 0;
        if (isRoot || options.toolSandboxes.translatesOwners) return image.tree;
        return held.use(await givenTo(image, user, signal)).tree;
      },
      [Symbol.dispose]: () => held.dispose(),
    };
  };

  const referenceIn = ({ reference }: ImageOrder): ImageReference => {
    const parsed = parseImageReference(reference);
    if (!parsed) throw new CannotRunError('image_invalid', 'This is not an image reference.');
    refuseIf(options.sandboxes.whyNoImages);
    return parsed;
  };
  const sourceFor = async (
    reference: ImageReference,
    { id, service, signal }: Pick<ImageTask, 'id' | 'service' | 'signal'>,
  ): Promise<RegistrySource> => {
    const asked = { claim: id, ...(service !== undefined && { service }) };
    const access = await accessFor(link, asked, reference, signal);
    return { reference, address: imageAddress(reference), access };
  };
  const describe = async (source: RegistrySource, signal: AbortSignal): Promise<{ bytes: Buffer; digest: string }> => {
    refuseIf(await missingPrograms());
    const bytes = await tools.fetchManifest(source, signal);
    const digest = digestOf(bytes);
    if ((source.reference.digest ?? digest) !== digest) throw mismatch(source.reference);
    return { bytes, digest };
  };
  /** The digest of the image that serves after this error. Rethrows the error if there is none. */
  const afterwards = async (error: unknown, { accountId: account, reference }: ImageOrder): Promise<string> => {
    if (isNoSpace(error)) throw diskFull();
    if (!(error instanceof CannotRunError)) throw error;
    const { reason } = error;
    if (reason === 'image_access_refused' || reason === 'image_not_found') await store.forgetLast(account, reference);
    const digest = reason === 'registry_unreachable' ? store.lastOf(account, reference) : undefined;
    if (digest === undefined) throw error;
    return digest;
  };

  const lookUp: Images['lookUp'] = async (order, task) => {
    const reference = referenceIn(order);
    const last = store.lastOf(order.accountId, order.reference);
    if (last !== undefined && reference.digest === last) return last;
    const source = await sourceFor(reference, task);
    const told = await registryCheck.digestOf(source, task.signal);
    if (told !== undefined && (reference.digest ?? told) === told) return told;
    try {
      return (await describe(source, task.signal)).digest;
    } catch (error) {
      return afterwards(error, order);
    }
  };

  const take: Images['take'] = async (order, { id, service, isAsItIs, writeLog, signal }) => {
    const reference = referenceIn(order);
    const { accountId: account } = order;
    const { host } = reference;
    const last = store.lastOf(account, order.reference);
    // A digest always names the same image, so an account that had it needs no new permission.
    if (last !== undefined && reference.digest === last) {
      const image = store.holdIfHere(host, last);
      if (image) return logged(image);
    }
    const source = await sourceFor(reference, { id, ...(service !== undefined && { service }), signal });
    if (last !== undefined && (await registryCheck.digestOf(source, signal)) === last) {
      const image = store.holdIfHere(host, last);
      if (image) return logged(image);
    }
    try {
      const { bytes, digest } = await describe(source, signal);
      const bring = (making: Making, ending: AbortSignal): Promise<Brought> => pull(source, bytes, making, ending);
      const image = await store.hold({ host, digest, account: `${account} ${reference.name}`, bring }, signal);
      await store.noteLast(account, order.reference, image);
      return await logged(image);
    } catch (error) {
      const image = store.holdIfHere(host, await afterwards(error, order));
      if (!image) throw error;
      return logged(image, `${messageOf(error)} It runs in the image that this account used last:`);
    }

    async function logged(image: HeldImage, label = 'Image'): Promise<TakenImage> {
      try {
        if (image.configuration.lacksShell && isAsItIs !== true)
          throw new CannotRunError(
            'image_without_shell',
            'The image has no /bin/sh that runs here, and commands need one.',
          );
        await writeLog(`${label} ${imageAddress(reference)} (${image.digest})\n`);
        return taken(image, signal);
      } catch (error) {
        image[Symbol.dispose]();
        throw error;
      }
    }
  };

  return {
    async again({ reference, accountId: account }, digest, signal) {
      const { host } = parseImageReference(reference) ?? {};
      if (host === undefined) throw new Error(`${reference} is not an image reference`);
      const bring = async (): Promise<never> => {
        throw new Error(`the image ${reference} (${digest}) is no longer on this runner`);
      };
      return taken(await store.hold({ host, digest, account, bring }, signal), signal);
    },

    lookUp: (order, task) => naming(order, () => lookUp(order, task)),
    take: (order, task) => naming(order, () => take(order, task)),
  };
}

async function naming<T>({ reference }: ImageOrder, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CannotRunError)) throw error;
    throw new CannotRunError(error.reason, `Image ${reference}: ${error.message}`);
  }
}

function refuseIf(why: string | null): void {
  if (why !== null) throw new CannotRunError('images_not_possible', `This runner cannot use images: ${why}.`);
}

const programs = ['skopeo', 'umoci'];

async function missingPrograms(): Promise<string | null> {
  const missing = (await Promise.all(programs.map(async (one) => ((await present(one)) ? [] : [one])))).flat();
  if (missing.length === 0) return null;
  return `${missing.join(' and ')} not found. Install with: apt-get install ${missing.join(' ')}`;
}

async function accessFor(
  link: Pick<Link, 'registry'>,
  asked: { claim: string; service?: string },
  { host }: ImageReference,
  signal: AbortSignal,
): Promise<RegistryAccess> {
  const access = await untilAnswered(signal, () => link.registry(asked, signal));
  if (access === undefined) throw new Error('the claim expired');
  if (access.host !== host) throw new Error('the image of this work was changed after it was ordered');
  return access;
}

/** Writes the layout's documents from data with checked digests, because the fetching program is not trusted. */
async function compose(layout: string, blobs: string, manifest: Manifest): Promise<void> {
  await rename(blobs, join(layout, 'blobs', 'sha256'));
  for (const [path, text] of Object.entries(layoutOf(manifest)))
    await writeFile(join(layout, path), text, { flag: 'wx', mode: 0o644 });
}

/** Describes the layers that the fetch decompressed. The unpacker checks their digests. */
async function decompressedIn(blobs: string, digests: readonly string[]): Promise<Descriptor[]> {
  const found = digests.map(async (digest) => {
    const file = await lstat(join(blobs, hexOf(digest))).catch(() => undefined);
    if (!file?.isFile())
      throw new CannotRunError('image_invalid', 'The image cannot be used: a layer does not match its description.');
    return plainLayerOf(digest, file.size);
  });
  return Promise.all(found);
}

/** Ends the work if the folder exceeds its limit, because an image can be far larger unpacked than packed. */
async function withinBytes<T>(
  folder: string,
  mostBytes: number,
  signal: AbortSignal,
  work: (bounds: { mostBytes: number; signal: AbortSignal }) => Promise<T>,
): Promise<T> {
  const size = watchSize(folder, mostBytes, tooLarge(mostBytes));
  try {
    const result = await work({ mostBytes, signal: AbortSignal.any([signal, size.signal]) });
    await size.check();
    return result;
  } catch (error) {
    // A single oversized file ends its writer before the size is measured.
    if (error instanceof CannotRunError && /file too large/i.test(error.message)) throw tooLarge(mostBytes);
    throw error;
  } finally {
    size.close();
  }
}

function mismatch({ host }: ImageReference): CannotRunError {
  return new CannotRunError('image_digest_mismatch', `The registry ${host}: it sent content with another digest.`);
}

function tooLarge(mostBytes: number): CannotRunError {
  const megabytes = Math.floor(mostBytes / 1024 / 1024);
  return new CannotRunError('image_too_large', `The image is larger than ${megabytes} MB (HEADRACE_IMAGE_SIZE).`);
}

function diskFull(): CannotRunError {
  return new CannotRunError('disk_full', "The runner's disk has not enough room for the image.");
}
