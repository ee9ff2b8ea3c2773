import { hostNameIn } from '../../shared/domain/artifact-origin.ts';
import { isPlainPath } from '../../shared/lib/file-types.ts';
import type { Vault } from '../../shared/lib/vault.ts';

/**
 * Addresses of artifacts at a host name of their own: `ORIGIN/PROJECT-BUILD-ACCOUNT-END-SIGNATURE/PATH`. The signature
 * is in the path and covers no file, so relative addresses inside a report work, within its build.
 */
export interface ArtifactAddresses {
  origin: string;
  /** True for a `Host` with the artifacts' name, whatever its port, case or final dot. */
  isOwnHost(host: string): boolean;
  /** `path` may be a folder's, with a slash at its end, or empty. */
  sign(reader: Omit<ArtifactReader, 'endsAt'>, path: string): string;
  read(path: string): ArtifactRequest | 'expired' | undefined;
}

export interface ArtifactReader {
  project: bigint;
  build: bigint;
  /** 0 for a visitor without an account. */
  account: bigint;
  endsAt: number;
}

export interface ArtifactRequest extends ArtifactReader {
  /** The part of the address with the signature. */
  ticket: string;
  path: string;
}

export const addressMs = 60 * 60 * 1000;

const ticketForm = /^\/(([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,19})-([0-9]{1,12}))-([\w-]{43})\/(.*)$/;

export function artifactAddresses({
  url,
  vault,
  now = Date.now,
}: {
  url: string;
  vault: Pick<Vault, 'sign' | 'isSigned'>;
  now?: () => number;
}): ArtifactAddresses {
  const { origin, host } = new URL(url);
  const ownName = hostNameIn(host);
  const place = `artifacts at ${origin}`;
  // Most requests have the same host as the one before.
  let last: { host: string; isOwn: boolean } | undefined;
  return {
    origin,
    isOwnHost(of) {
      if (last?.host !== of) last = { host: of, isOwn: hostNameIn(of) === ownName };
      return last.isOwn;
    },
    sign({ project, build, account }, path) {
      const text = `${project}-${build}-${account}-${Math.ceil((now() + addressMs) / 1000)}`;
      const encoded = path.split('/').map(encodeURIComponent).join('/');
      return `${origin}/${text}-${vault.sign(text, place)}/${encoded}`;
    },
    read(address) {
      const [, text = '', project = '', build = '', account = '', ends = '', signature = '', encoded = ''] =
        ticketForm.exec(address) ?? [];
      const path = pathIn(encoded);
      if (text === '' || path === undefined || !vault.isSigned(text, place, signature)) return undefined;
      const endsAt = Number(ends) * 1000;
      if (endsAt <= now()) return 'expired';
      const reader = { project: BigInt(project), build: BigInt(build), account: BigInt(account), endsAt };
      return { ...reader, ticket: `${text}-${signature}`, path };
    },
  };
}

/** The path of a file, or of a folder with a slash at its end. An encoded slash would make another address relative. */
function pathIn(encoded: string): string | undefined {
  try {
    const names = encoded.split('/').map(decodeURIComponent);
    const path = names.join('/');
    const isPlain = path === '' || isPlainPath(path.replace(/\/$/, ''));
    return isPlain && names.every((name) => !name.includes('/')) ? path : undefined;
  } catch {
    return undefined; // it is not UTF-8
  }
}
