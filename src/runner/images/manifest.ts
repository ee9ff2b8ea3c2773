import { createHash } from 'node:crypto';
import { architecture, group, invalid, json, wrongArchitecture } from './documents.ts';
import { plainVariants, variantsHere } from './processor.ts';

/** Documents come from a registry through an untrusted program, so each is accepted only with the right digest. */
export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

export interface Manifest {
  config: Descriptor;
  layers: Descriptor[];
}

/** The image's manifest, or the digest of an index's manifest for this machine. */
export type Described = { manifest: Manifest } | { other: string };

const mostLayers = 1000;

/** umoci cannot unpack this kind, so such layers are decompressed during the fetch. */
const zstdLayer = 'application/vnd.oci.image.layer.v1.tar+zstd';
const plainLayer = 'application/vnd.oci.image.layer.v1.tar';

const layerTypes: Record<string, string> = {
  [zstdLayer]: zstdLayer,
  'application/vnd.docker.image.rootfs.diff.tar.zstd': zstdLayer,
  [plainLayer]: plainLayer,
  'application/vnd.oci.image.layer.v1.tar+gzip': 'application/vnd.oci.image.layer.v1.tar+gzip',
  'application/vnd.docker.image.rootfs.diff.tar': plainLayer,
  'application/vnd.docker.image.rootfs.diff.tar.gzip': 'application/vnd.oci.image.layer.v1.tar+gzip',
};

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

/** Reads a manifest or an index. `variants` are this machine's, highest first. */
export function readManifest(bytes: Uint8Array, variants: () => readonly string[] = variantsHere): Described {
  const all = group(json(bytes));
  if (Array.isArray(all.manifests)) return { other: ofThisMachine(all.manifests.map(group), variants) };
  if (!Array.isArray(all.layers) || all.layers.length > mostLayers)
    throw invalid('its manifest is of an old or unknown kind');
  const layers = all.layers.map(descriptor).map((layer) => ({ ...layer, mediaType: layerType(layer) }));
  return { manifest: { config: descriptor(all.config), layers } };
}

/** Chooses the plain manifest, or else the highest variant that this machine supports. */
function ofThisMachine(manifests: Record<string, unknown>[], variants: () => readonly string[]): string {
  const fitting = manifests.flatMap((one) => {
    const platform = typeof one.platform === 'object' && one.platform !== null ? group(one.platform) : {};
    const fits = platform.os === 'linux' && platform.architecture === architecture;
    return fits ? [{ one, variant: platform.variant }] : [];
  });
  const plain = fitting.find(({ variant }) => plainVariants.includes(variant));
  const highest = (): typeof fitting =>
    variants().flatMap((wanted) => fitting.find(({ variant }) => variant === wanted) ?? []);
  const chosen = plain ?? highest()[0];
  if (chosen) return descriptor(chosen.one).digest;
  const others = fitting.map(({ variant }) => `linux/${architecture}/${String(variant)}`);
  throw wrongArchitecture(`it has ${others.slice(0, 5).join(' and ') || 'nothing'}`);
}

function layerType({ mediaType }: Descriptor): string {
  const known = layerTypes[mediaType];
  if (known === undefined)
    throw invalid(`a layer is packed in a way that cannot be unpacked here (${mediaType.slice(0, 100)})`);
  return known;
}

export function hasZstd({ layers }: Manifest): boolean {
  return layers.some(({ mediaType }) => mediaType === zstdLayer);
}

/** The digests of the uncompressed layers, from the configuration. They verify decompressed data. */
export function plainDigests(configuration: Uint8Array, { layers }: Manifest): string[] {
  const { diff_ids: digests } = group(group(json(configuration)).rootfs);
  if (!Array.isArray(digests) || digests.length !== layers.length) throw invalid('its description is malformed');
  return digests.map((digest) => descriptor({ mediaType: plainLayer, digest, size: 0 }).digest);
}

export function plainLayerOf(digest: string, size: number): Descriptor {
  return { mediaType: plainLayer, digest, size };
}

/** The files of an OCI layout for the unpacker: contents by path. */
export function layoutOf({ config, layers }: Manifest): Record<string, string> {
  const mediaType = 'application/vnd.oci.image.manifest.v1+json';
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType,
    config: { ...config, mediaType: 'application/vnd.oci.image.config.v1+json' },
    layers,
  });
  const digest = digestOf(Buffer.from(manifest));
  const named = { 'org.opencontainers.image.ref.name': layoutName };
  const index = {
    schemaVersion: 2,
    manifests: [{ mediaType, digest, size: Buffer.byteLength(manifest), annotations: named }],
  };
  return {
    'oci-layout': JSON.stringify({ imageLayoutVersion: '1.0.0' }),
    'index.json': JSON.stringify(index),
    [`blobs/sha256/${hexOf(digest)}`]: manifest,
  };
}

export const layoutName = 'image';
export const hexOf = (digest: string): string => digest.slice('sha256:'.length);

function descriptor(value: unknown): Descriptor {
  const { mediaType, digest, size } = group(value);
  const isWhole = typeof size === 'number' && Number.isSafeInteger(size) && size >= 0;
  if (typeof mediaType !== 'string' || typeof digest !== 'string' || !isWhole || !/^sha256:[0-9a-f]{64}$/.test(digest))
    throw invalid('its description is malformed');
  return { mediaType, digest, size };
}
