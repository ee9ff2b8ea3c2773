import { hostname } from 'node:os';
import { isSocketPath, type Config } from '../config.ts';
import { addressOfServer } from './folder-lock.ts';

type Settings = Pick<Config, 'base_url' | 'data_dir' | 'tls' | 'host' | 'port'>;

/** The public address of a server that listens on `bound`: the configured one, or else `bound`. */
export function publicAddress({ base_url: baseUrl }: Pick<Config, 'base_url'>, bound: string): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  // A server on all addresses has none that can be called; the certificate also has the machine's name.
  return bound.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, `$1${hostname()}`);
}

/** The same for another command: where the data folder's server listens, or would listen by these settings. */
export function addressForPeople(config: Settings): string {
  const { tls, host, port } = config;
  const wouldListen = `${tls === 'off' ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const bound = addressOfServer(config.data_dir) ?? (isSocketPath(host) ? `unix:${host}` : wouldListen);
  if (config.base_url === undefined && bound.startsWith('unix:'))
    throw new Error('set base_url, so that the link can say where people find the server');
  return publicAddress(config, bound);
}
