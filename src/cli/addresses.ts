import { hostname } from 'node:os';
import { isSocketPath, type Config } from '../config.ts';
import { addressOfServer } from './folder-lock.ts';

type Settings = Pick<Config, 'base_url' | 'data_dir' | 'tls' | 'host' | 'port'>;

/** Where people find a server that listens on `bound`: where its operator says, or else there. */
export function publicAddress({ base_url: baseUrl }: Pick<Config, 'base_url'>, bound: string): string {
  if (baseUrl !== undefined) return baseUrl.replace(/\/+$/, '');
  // To listen on all addresses is to have none that could be called; the certificate also has the machine's name.
  return bound.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, `$1${hostname()}`);
}

/** The same for another command: where the server of the data folder listens, or would by these settings. */
export function addressForPeople(config: Settings): string {
  const { tls, host, port } = config;
  const wouldListen = `${tls === 'off' ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const bound = addressOfServer(config.data_dir) ?? (isSocketPath(host) ? `unix:${host}` : wouldListen);
  if (config.base_url === undefined && bound.startsWith('unix:'))
    throw new Error('set base_url, so that the link can say where people find the server');
  return publicAddress(config, bound);
}
