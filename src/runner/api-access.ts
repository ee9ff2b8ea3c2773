import { mkdir, writeFile } from 'node:fs/promises';
import { isIP, isIPv6 } from 'node:net';
import { join } from 'node:path';
import { hostIn, portIn } from '../shared/domain/public-url.ts';
import type { BuildVariables } from '../shared/domain/build-variables.ts';
import { addressOfBuilds } from '../shared/lib/networks.ts';
import { randomName } from '../shared/lib/random-name.ts';
import { removeTree } from '../shared/lib/remove-tree.ts';
import type { ApiOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps } from './job-runner.ts';
import { buildUser, type Job } from './sandbox/types.ts';

/** How a build calls the API of its server: by which variables, and through which door of its network. */
export interface ApiAccess extends AsyncDisposable {
  environment: Record<string, string>;
  door?: Job['door'];
  /** Lines for a file of hosts: the server's name leads to the door. */
  hosts: string;
  mounts: NonNullable<Job['mounts']>;
  /** The mount of that file, for a build that has no other one. */
  hostsFile: NonNullable<Job['mounts']>;
}

const folderInBuild = '/run/headrace';
const caName = 'ca.pem';

/** Apart from the address on which a build's own programs usually listen. */
const doorAddress = addressOfBuilds;

/** `names` are other names of loopback. */
export function usualHosts(names: readonly string[] = []): string {
  return `127.0.0.1 ${['localhost', buildUser.name, ...names].join(' ')}\n::1 localhost ip6-localhost ip6-loopback\n`;
}

type Using = Pick<RunnerDeps, 'sandboxes' | 'scratch' | 'server'>;

/** A remote runner gives its builds the address at which it reaches the server itself. */
export async function openApiAccess({ sandboxes, scratch, server }: Using, order: ApiOrder): Promise<ApiAccess> {
  const url = (server?.url ?? order.url).replace(/\/+$/, '');
  const certificate = server ? server.ca : order.certificate;
  const at = new URL(url);
  const [host, port] = [hostIn(at), portIn(at)];
  const isName = isIP(host) === 0 && host !== 'localhost';
  const hosts = isName && sandboxes.hasOwnNetwork ? `${doorAddress} ${host}\n` : '';
  const folder = join(scratch, `api-${randomName()}`);
  await mkdir(folder, { mode: 0o755 });
  if (certificate !== undefined) await writeFile(join(folder, caName), certificate, { mode: 0o644 });
  await writeFile(join(folder, 'hosts'), usualHosts() + hosts, { mode: 0o644 });
  const shown = sandboxes.isIsolated ? folderInBuild : folder;
  return {
    environment: {
      HEADRACE_URL: url,
      ...(certificate !== undefined && { HEADRACE_CA_FILE: join(shown, caName) }),
    } satisfies BuildVariables,
    // A build's network has no IPv6 but its loopback.
    ...(!isIPv6(host) && {
      door: {
        address: isName ? doorAddress : host === 'localhost' ? '127.0.0.1' : host,
        port,
        to: server ? { host, port } : order.listens,
      },
    }),
    hosts,
    mounts: sandboxes.isIsolated ? [{ at: folderInBuild, layers: [folder] }] : [],
    hostsFile: hosts === '' ? [] : [{ at: '/etc/hosts', file: join(folder, 'hosts') }],
    [Symbol.asyncDispose]: () => removeTree(folder),
  };
}
