import { isSocketPath, type Config } from '../config.ts';
import { publicAddress } from '../lib/public-address.ts';
import { addressOfServer } from './folder-lock.ts';

type Settings = Pick<Config, 'base_url' | 'data_dir' | 'tls' | 'host' | 'port'>;

/**
 * The public address of the data folder's server, for another command: where it listens, or would listen by these
 * settings.
 */
export function addressForPeople(config: Settings): string {
  const { tls, host, port } = config;
  const wouldListen = `${tls === 'off' ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const bound = addressOfServer(config.data_dir) ?? (isSocketPath(host) ? `unix:${host}` : wouldListen);
  if (config.base_url === undefined && bound.startsWith('unix:'))
    throw new Error('set base_url, so that the link can say where people find the server');
  return publicAddress(config.base_url, bound);
}
