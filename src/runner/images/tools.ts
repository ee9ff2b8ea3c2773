import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DiskFullError } from '../../shared/lib/disk-reserve.ts';
import type { ImageReference } from '../../shared/domain/image-reference.ts';
import type { AddressRules } from '../../shared/lib/address-filter.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { sweepTree } from '../../shared/lib/remove-tree.ts';
import type { RegistryAccess } from '../../shared/protocol/index.ts';
import { openFilteringProxy, proxySocket, type FilteringProxy } from '../filtering-proxy.ts';
import { machineTrust } from '../sandbox/etc.ts';
import { quote } from '../../shared/lib/shell-word.ts';
import { rootUser, type Ended, type Job, type Limits, type RunUser, type Sandboxes } from '../sandbox/types.ts';
import { CannotRunError } from '../cannot-run.ts';
import { lastLine, pullFailure } from './failures.ts';
import type { ImageAccounts } from './configuration.ts';
import { mostBytesOfDocument } from './documents.ts';
import { layoutName } from './manifest.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/**
 * skopeo and umoci process untrusted data. Each runs in a sandbox with one directory and no network. Only skopeo can
 * reach registries, through a proxy that filters addresses (filtering-proxy.ts).
 */
export interface ImageTools {
  fetchManifest(source: RegistrySource, signal: AbortSignal): Promise<Buffer>;
  /** Fetches an image's parts, named by digest (decompressed layers by their new digest). Returns one, `what.part`. */
  copy(source: RegistrySource, into: string, what: Copied, bounds: Bounds): Promise<Buffer>;
  /** Unpacks into an empty directory. This is a mount, so the unpacker cannot replace it. */
  unpack(layout: string, into: string, bounds: Bounds): Promise<ImageAccounts>;
  /** Copies an image's files to an empty directory, and swaps the owners `user` and root there. */
  giveTo(user: RunUser, tree: string, into: string, bounds: Bounds): Promise<void>;
  hasShell(tree: string, signal: AbortSignal): Promise<boolean>;
}

export interface RegistrySource {
  reference: ImageReference;
  /** The reference in skopeo's format. */
  address: string;
  access: RegistryAccess;
}

export interface Copied {
  part: string;
  decompress: boolean;
}

export interface Bounds {
  mostBytes: number;
  signal: AbortSignal;
}

export interface ImageToolsOptions {
  /** Without a network. */
  sandboxes: Sandboxes;
  /** The folder for sockets. No other user may enter it. */
  folder: string;
  rules: AddressRules;
  /** Certificates to trust for TLS. If undefined, the machine's own. */
  authorities?: string | undefined;
  timeoutMs: number;
  log: (message: string) => void;
}

const manifestTimeoutMs = 60_000;
const limits: Limits = { memoryBytes: 2 * 1024 ** 3, processes: 512, timeoutMs: manifestTimeoutMs };
const relayProgram = quote(readFileSync(sourceFile('runner/proxy-relay.pl'), 'utf8'));
const accountsProgram = quote(readFileSync(sourceFile('runner/images/accounts.pl'), 'utf8'));
const socketPlace = '/run/headrace/proxy';
const authoritiesFile = 'authorities.pem';
const giving = quote(readFileSync(sourceFile('runner/give-files.pl'), 'utf8'));
const treePlace = '/run/headrace/tree';
const layoutPlace = '/run/headrace/layout';
const authFile = '/dev/shm/auth.json'; // in memory, and removed with the sandbox

export function openImageTools({
  sandboxes,
  folder,
  rules,
  authorities,
  timeoutMs,
  log,
}: ImageToolsOptions): ImageTools {
  const run = async (
    what: Omit<Job, 'id' | 'limits' | 'output' | 'environment'> & Partial<Job>,
  ): Promise<ToolOutput> => {
    const output: Buffer[] = [];
    let left = mostBytesOfDocument;
    const ended = await sandboxes.run({
      id: randomName(),
      environment: {},
      limits,
      ...what,
      output: (chunk) => {
        output.push(chunk.subarray(0, Math.max(0, left)));
        left -= chunk.length;
      },
    });
    if (ended.reason === 'cancelled') throw what.signal.reason;
    if (ended.reason === 'out_of_disk') throw new DiskFullError();
    return { ended, bytes: Buffer.concat(output) };
  };

  const skopeo = async (source: RegistrySource, what: Skopeo): Promise<Buffer> => {
    const { reference, access } = source;
    const own = join(folder, randomName());
    let proxy: FilteringProxy | undefined;
    try {
      await mkdir(own, { mode: 0o755 });
      if (authorities !== undefined) await writeFile(join(own, authoritiesFile), authorities);
      proxy = await openFilteringProxy({ folder: own, rules, mostBytes: what.mostBytes, signal: what.signal });
      const [address, port] = loopbackOf(reference.host);
      const relay = `perl -e ${relayProgram} ${socketPlace}/${proxySocket} ${quote(address)} ${quote(port)}`;
      const { ended, bytes } = await run({
        steps: [
          {
            name: 'skopeo',
            command: [
              `umask 077; printf %s "$REGISTRY_AUTH" >${authFile}; unset REGISTRY_AUTH; umask 022`,
              what.before ?? '',
              `${relay} skopeo ${what.command} >/tmp/out 2>/tmp/said && ${what.print} || { status=$?; cat /tmp/said; exit $status; }`,
            ].join('\n'),
          },
        ],
        environment: {
          REGISTRY_AUTH: authOf(access),
          ...(authorities !== undefined && { SSL_CERT_FILE: `${socketPlace}/${authoritiesFile}` }),
        },
        workspace: what.workspace,
        mounts: [{ at: socketPlace, layers: [own] }, ...machineTrust()],
        limits: { ...limits, timeoutMs: what.timeoutMs },
        signal: what.signal,
      });
      if (ended.exitStatus === 0) return bytes;
      throw failureOf(reference.host, ended, hidden(bytes.toString(), access), proxy.troubles);
    } finally {
      await proxy?.close();
      await sweepTree(own, log);
    }
  };

  return {
    fetchManifest: (source, signal) =>
      skopeo(source, {
        command: `inspect --raw --authfile ${authFile} ${quote(`docker://${source.address}`)}`,
        print: 'cat /tmp/out',
        workspace: { empty: true },
        mostBytes: 4 * mostBytesOfDocument,
        timeoutMs: manifestTimeoutMs,
        signal,
      }),
    copy: (source, into, { part, decompress }, { mostBytes, signal }) =>
      skopeo(source, {
        before: fileLimit(mostBytes),
        command: `copy --quiet ${decompress ? '--dest-decompress ' : ''}--src-authfile ${authFile} ${quote(`docker://${source.address}`)} dir:/build`,
        print: `head -c ${mostBytesOfDocument} ${quote(`/build/${part}`)}`,
        workspace: { directory: into },
        mostBytes: mostBytes + 4 * mostBytesOfDocument,
        timeoutMs,
        signal,
      }),
    async unpack(layout, into, { mostBytes, signal }) {
      // With many users, files keep the image's owners. Otherwise all files belong to the only ID.
      const rootless = sandboxes.hasManyUsers ? '' : '--rootless ';
      // If umoci fails, it sometimes crashes before it prints the reason. Then it is retried.
      const command = [
        `${fileLimit(mostBytes)}unpack() { umoci raw unpack ${rootless}--image ${layoutPlace}:${layoutName} /build >/tmp/said 2>&1; }`,
        `unpack || { grep -q '^panic: ' /tmp/said && find /build -mindepth 1 -delete && unpack; } || { cat /tmp/said; exit 1; }`,
        `exec perl -e ${accountsProgram}`,
      ].join('\n');
      const { ended, bytes } = await run({
        steps: [{ name: 'unpack', command }],
        user: rootUser,
        workspace: { directory: into },
        mounts: [{ at: layoutPlace, layers: [layout] }],
        limits: { ...limits, timeoutMs },
        signal,
      });
      if (ended.exitStatus === 0) {
        const [passwd = '', group = ''] = bytes.toString().split('\0');
        return { passwd, group };
      }
      const why = ended.reason?.replaceAll('_', ' ') ?? lastLine(bytes.toString());
      const reason = /digest|hash|checksum/i.test(why) ? 'image_digest_mismatch' : 'image_invalid';
      throw new CannotRunError(reason, `The image cannot be unpacked: ${why}`);
    },
    async giveTo({ uid, gid }, tree, into, { mostBytes, signal }) {
      const copy = `${fileLimit(mostBytes)}cp -a --reflink=auto ${treePlace}/. /build`;
      const { ended, bytes } = await run({
        steps: [{ name: 'give', command: `${copy}\nexec perl -e ${giving} -- exchange ${uid} ${gid}` }],
        user: rootUser,
        workspace: { directory: into },
        mounts: [{ at: treePlace, layers: [tree] }],
        limits: { ...limits, timeoutMs },
        signal,
      });
      if (ended.exitStatus === 0) return;
      throw new Error(`the files of an image were not copied: ${ended.reason ?? lastLine(bytes.toString())}`);
    },
    async hasShell(tree, signal) {
      const { ended } = await run({
        steps: [{ name: 'shell', command: ':' }],
        user: rootUser,
        workspace: { empty: true },
        image: tree,
        signal,
      });
      return ended.exitStatus === 0;
    },
  };
}

interface ToolOutput {
  ended: Ended;
  bytes: Buffer;
}

interface Skopeo extends Bounds {
  before?: string;
  command: string;
  print: string;
  workspace: Job['workspace'];
  timeoutMs: number;
}

function failureOf(host: string, ended: Ended, output: string, troubles: FilteringProxy['troubles']): CannotRunError {
  if (ended.reason === 'timed_out') return pullFailure(host, 'timeout', troubles);
  return pullFailure(host, output, troubles);
}

/** A program that writes more gets an error instead of a signal. A lower existing limit stays. */
function fileLimit(bytes: number): string {
  return `trap '' XFSZ; ulimit -f ${Math.ceil(bytes / 512)} || :; `;
}

/** Contains only this registry's credential, so a hostile registry that takes over skopeo learns nothing new. */
function authOf({ host, username, password }: RegistryAccess): string {
  if (username === undefined || password === undefined) return JSON.stringify({ auths: {} });
  return JSON.stringify({ auths: { [host]: { auth: Buffer.from(`${username}:${password}`).toString('base64') } } });
}

function hidden(text: string, { username, password = '' }: RegistryAccess): string {
  if (password === '') return text;
  const encoded = Buffer.from(`${username}:${password}`).toString('base64');
  return text.replaceAll(encoded, '[hidden]').replaceAll(password, '[hidden]');
}

/** Go programs bypass proxies for loopback hosts, so the relay listens at such an address itself. */
function loopbackOf(host: string): [address: string, port: string] {
  const [, address, port = '443'] = /^(127\.\d+\.\d+\.\d+|localhost)(?::(\d+))?$/.exec(host) ?? [];
  return address === undefined ? ['', ''] : [address, port];
}
