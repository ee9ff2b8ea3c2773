import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { createSecureContext, type SecureContext } from 'node:tls';
import { parse } from 'smol-toml';

/** Registries with special configuration (such as mirrors or client certificates) are left to the pulling program. */
export interface RegistryTrust {
  /** Trusted certificates for this host; undefined if only the pulling program may contact it. */
  contextFor(host: string): SecureContext | undefined;
}

interface RegistryTrustOptions {
  etc?: string;
  added?: string | undefined;
}

const bundles = ['ssl/certs/ca-certificates.crt', 'pki/tls/certs/ca-bundle.crt'];
const mostHosts = 100;

export function readRegistryTrust({ etc = '/etc', added = '' }: RegistryTrustOptions = {}): RegistryTrust {
  const known = new Map<string, { stamp: string; context: SecureContext | undefined }>();

  const filesFor = (host: string): string[] => [
    ...bundles.map((path) => join(etc, path)),
    join(etc, 'containers/registries.conf'),
    ...inFolder(join(etc, 'containers/registries.conf.d')),
    ...['containers/certs.d', 'docker/certs.d'].flatMap((place) => inFolder(join(etc, place, host))),
  ];

  return {
    contextFor(host) {
      const files = filesFor(host);
      const stamp = files.map(stampOf).join('\n');
      const before = known.get(host);
      if (before?.stamp === stamp) return before.context;
      if (known.size >= mostHosts) known.clear();
      const context = contextOf(host, files, added);
      known.set(host, { stamp, context });
      return context;
    },
  };
}

function inFolder(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return []; // the folder is missing
  }
}

function stampOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  return found ? `${file} ${found.ino} ${found.size} ${found.mtimeMs}` : '';
}

function contextOf(host: string, files: readonly string[], added: string): SecureContext | undefined {
  if (files.some((file) => /\.(?:cert|key)$/.test(file))) return undefined;
  try {
    if (files.some((file) => file.includes('registries.conf') && covers(readText(file), host))) return undefined;
    const trusted = files.filter((file) => file.endsWith('.crt')).map(readText);
    return createSecureContext({ ca: [...trusted, added].filter((text) => text !== '') });
  } catch {
    return undefined; // the pulling program reports the error
  }
}

function readText(file: string): string {
  return statSync(file, { throwIfNoEntry: false }) ? readFileSync(file, 'utf8') : '';
}

/** Whether a configuration has an entry for this registry, or the older format that lists all registries at once. */
function covers(text: string, host: string): boolean {
  const { registry = [], registries } = parse(text);
  if (registries !== undefined || !Array.isArray(registry)) return true;
  return registry.some((entry) => {
    const { prefix, location = '' } = entry as { prefix?: string; location?: string };
    const [named = ''] = (prefix ?? location).split('/');
    // An entry without a port covers the host at every port.
    const names = [host, host.replace(/:\d+$/, '')];
    return (
      named === '' || names.some((name) => (named.startsWith('*.') ? name.endsWith(named.slice(1)) : name === named))
    );
  });
}
