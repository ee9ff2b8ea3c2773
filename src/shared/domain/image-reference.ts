import { longest } from './bounds.ts';

/**
 * `registry/name:tag`, `registry/name@sha256:DIGEST`, or both. The default registry is Docker Hub, as in other tools.
 */
export interface ImageReference {
  host: string;
  name: string;
  tag: string | undefined;
  /** `sha256:` and 64 digits. It takes precedence over the tag. */
  digest: string | undefined;
}

const hubHost = 'docker.io';
/** Tools treat all of these as Docker Hub. */
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

export function parseImageReference(text: string): ImageReference | undefined {
  if (text.length > longest.image) return undefined;
  const slash = text.indexOf('/');
  const first = slash < 0 ? '' : text.slice(0, slash);
  // A first part without dot and port belongs to the name, unless it can only be a host.
  const isHost = /[.:[]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  const host = isHost ? normalHost(first) : hubHost;
  const [, name, tag, digest] = restForm.exec(isHost ? text.slice(slash + 1) : text) ?? [];
  if (host === undefined || name === undefined || name.length > longestName) return undefined;
  return { host, name: host === hubHost && !name.includes('/') ? `library/${name}` : name, tag, digest };
}

/** The one spelling of a registry's host. Undefined if the text is no host. */
export function normalHost(text: string): string | undefined {
  const found = hostForm.exec(text);
  if (text.length > 255 || !found || Number(found[1] ?? 1) > 65_535) return undefined;
  const host = text.toLowerCase();
  return hubNames.has(host) ? hubHost : host;
}

/** By digest, or else by tag, which defaults to `latest`. */
export function imageAddress({ host, name, tag, digest }: ImageReference, pinned = digest): string {
  return `${host}/${name}${pinned === undefined ? `:${tag ?? 'latest'}` : `@${pinned}`}`;
}
