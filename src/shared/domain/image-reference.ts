import { longest } from './bounds.ts';

/**
 * References to container images, in the form that all tools for them share: `registry/name:tag`,
 * `registry/name@sha256:DIGEST`, or both. Without a registry it is Docker Hub's, as everywhere else.
 */
export interface ImageReference {
  /** The registry's host, with its port where one is named. */
  host: string;
  name: string;
  tag: string | undefined;
  /** `sha256:` and 64 digits; it wins over the tag. */
  digest: string | undefined;
}

const hubHost = 'docker.io';
/** Other names of Docker Hub; tools treat all of them as one registry. */
const hubNames = new Set(['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com']);

const hostLabel = '[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?';
const hostForm = new RegExp(
  `^(?:${hostLabel}(?:\\.${hostLabel}){0,126}|\\[[0-9A-Fa-f:.]{2,45}\\])(?::([1-9][0-9]{0,4}))?$`,
);
const namePart = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
const restForm = new RegExp(
  `^(${namePart}(?:/${namePart})*)(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(sha256:[0-9a-f]{64}))?$`,
);
const longestName = 255;

/** Undefined where the text is no reference. */
export function parseImageReference(text: string): ImageReference | undefined {
  if (text.length > longest.image) return undefined;
  const slash = text.indexOf('/');
  const first = slash < 0 ? '' : text.slice(0, slash);
  // A first part without a dot and a port is a part of the name, unless it can be nothing else than a host.
  const isHost = /[.:[]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  const host = isHost ? normalHost(first) : hubHost;
  const [, name, tag, digest] = restForm.exec(isHost ? text.slice(slash + 1) : text) ?? [];
  if (host === undefined || name === undefined || name.length > longestName) return undefined;
  return { host, name: host === hubHost && !name.includes('/') ? `library/${name}` : name, tag, digest };
}

/** The one spelling of a registry's host; undefined where the text is no host. */
export function normalHost(text: string): string | undefined {
  const found = hostForm.exec(text);
  if (text.length > 255 || !found || Number(found[1] ?? 1) > 65_535) return undefined;
  const host = text.toLowerCase();
  return hubNames.has(host) ? hubHost : host;
}

/** The image that a digest, or else the tag, stands for; `latest` without either. */
export function imageAddress({ host, name, tag, digest }: ImageReference, pinned = digest): string {
  return `${host}/${name}${pinned === undefined ? `:${tag ?? 'latest'}` : `@${pinned}`}`;
}
