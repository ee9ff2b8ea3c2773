import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { ownCertificate } from '../../src/server/http/certificate.ts';
import { run } from '../../src/shared/lib/processes.ts';
import { busybox } from './busybox.ts';
import { freePort } from './ports.ts';
import { tarOf, type TarEntry } from './tar.ts';

/**
 * A registry of images: Debian's docker-registry over TLS, which the machine trusts, with a user and a password, or open
 * to everybody.
 */
export interface TestRegistry {
  /** As references name it. */
  host: string;
  /** The file of its certificate. */
  certificate: string;
  user: { username: string; password: string };
  /** Stores an image, and returns the digest of its manifest. */
  push(name: string, tag: string, image: TestImage): Promise<string>;
  /** Stores any document as a manifest. */
  pushManifest(name: string, tag: string, type: string, text: string): Promise<string>;
  /** It takes connections and says nothing, until it thaws. */
  freeze(): void;
  thaw(): void;
  /** It does not answer until it is started again. */
  stop(): Promise<void>;
  start(): Promise<void>;
  close(): Promise<void>;
}

export interface TestImage {
  layers: Buffer[];
  config: Buffer;
  manifest: Buffer;
}

const manifestType = 'application/vnd.oci.image.manifest.v1+json';
export const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch as string] ?? process.arch;
const digestOf = (bytes: Uint8Array): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

const packings = {
  gzip: { suffix: '+gzip', pack: (tar: Buffer) => gzipSync(tar, { level: 1 }) },
  zstd: { suffix: '+zstd', pack: (tar: Buffer) => zstdCompressSync(tar) },
  none: { suffix: '', pack: (tar: Buffer) => tar },
};

interface ImageOptions {
  env?: string[];
  architecture?: string;
  /** How its layers are packed. */
  packing?: keyof typeof packings;
  /** More of the image's configuration. */
  config?: Record<string, unknown>;
}

/** An image of layers that are written entry by entry. */
export function imageOf(layers: TarEntry[][], options: ImageOptions = {}): TestImage {
  const tars = layers.map((entries) => tarOf(entries));
  return imageOfTars(tars, options);
}

export function imageOfTars(
  tars: Buffer[],
  { env = [], architecture: made = architecture, config = {}, packing = 'gzip' }: ImageOptions = {},
): TestImage {
  const { suffix, pack } = packings[packing];
  const packed = tars.map(pack);
  const description = Buffer.from(
    JSON.stringify({
      architecture: made,
      os: 'linux',
      config: { Env: env, ...config },
      rootfs: { type: 'layers', diff_ids: tars.map(digestOf) },
      history: tars.map(() => ({ created_by: 'a test' })),
    }),
  );
  const part = (mediaType: string, bytes: Buffer) => ({ mediaType, digest: digestOf(bytes), size: bytes.length });
  const manifest = {
    schemaVersion: 2,
    mediaType: manifestType,
    config: part('application/vnd.oci.image.config.v1+json', description),
    layers: packed.map((bytes) => part(`application/vnd.oci.image.layer.v1.tar${suffix}`, bytes)),
  };
  return { layers: packed, config: description, manifest: Buffer.from(JSON.stringify(manifest)) };
}

const programs = ['sh', 'ls', 'cat', 'id', 'touch', 'mkdir', 'env', 'readlink', 'stat', 'sleep', 'rm', 'head', 'mount'];

/** A layer with a shell and a few programs. */
export function shellLayer(): TarEntry[] {
  return [
    { name: 'bin/', type: 'directory' },
    { name: 'bin/busybox', content: readFileSync(busybox) },
    ...programs.map((name): TarEntry => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' })),
  ];
}

/** `isTrusted`: the machine's configuration for containers has its certificate. */
export async function startRegistry({ isOpen = false, isTrusted = true } = {}): Promise<TestRegistry> {
  const home = await mkdtemp(join(tmpdir(), 'registry-'));
  const port = await freePort();
  const host = `127.0.0.1:${port}`;
  const user = { username: 'puller', password: 'correct horse: battery' };
  const { cert: ca } = await ownCertificate(home);
  const trusted = join('/etc/containers/certs.d', host);
  if (isTrusted) {
    await mkdir(trusted, { recursive: true });
    await writeFile(join(trusted, 'ca.crt'), ca);
  }
  const hashed = await run('htpasswd', ['-niB', '-C', '4', user.username], { input: user.password });
  await writeFile(join(home, 'htpasswd'), hashed.stdout);
  const config = {
    version: '0.1',
    log: { level: 'error', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(home, 'blobs') } },
    http: { addr: host, tls: { certificate: join(home, 'tls/cert.pem'), key: join(home, 'tls/key.pem') } },
    ...(!isOpen && { auth: { htpasswd: { realm: 'test', path: join(home, 'htpasswd') } } }),
  };
  await writeFile(join(home, 'config.yml'), JSON.stringify(config));
  let child: ChildProcess | undefined;
  const call = async (options: RequestOptions, body?: Uint8Array): Promise<{ status: number; location: string }> => {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; location: string }>();
    const sent = request({ host: '127.0.0.1', port, ca, auth: `${user.username}:${user.password}`, ...options });
    sent.on('error', reject).on('response', (response) => {
      response
        .resume()
        .on('end', () => resolve({ status: response.statusCode ?? 0, location: response.headers.location ?? '' }));
    });
    sent.end(body);
    return promise;
  };
  const must = async (status: number, options: RequestOptions, body?: Uint8Array): Promise<string> => {
    const answer = await call(options, body);
    if (answer.status !== status)
      throw new Error(`the registry answered ${options.method} ${options.path} with ${answer.status}`);
    return answer.location;
  };
  const start = async (): Promise<void> => {
    child = spawn('docker-registry', ['serve', join(home, 'config.yml')], { stdio: 'ignore' });
    while ((await call({ path: '/v2/' }).catch(() => undefined))?.status !== 200) {
      if (child.exitCode !== null) throw new Error('the registry did not start');
      await pause(20);
    }
  };
  const stop = async (): Promise<void> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  };
  const pushManifest = async (name: string, tag: string, type: string, text: string): Promise<string> => {
    const bytes = Buffer.from(text);
    const path = `/v2/${name}/manifests/${tag}`;
    await must(201, { method: 'PUT', path, headers: { 'content-type': type, 'content-length': bytes.length } }, bytes);
    return digestOf(bytes);
  };
  await start();
  return {
    host,
    certificate: join(home, 'tls/cert.pem'),
    user,
    pushManifest,
    async push(name, tag, { layers, config: description, manifest }) {
      for (const bytes of [...layers, description]) {
        const place = new URL(await must(202, { method: 'POST', path: `/v2/${name}/blobs/uploads/` }));
        place.searchParams.set('digest', digestOf(bytes));
        const headers = { 'content-type': 'application/octet-stream', 'content-length': bytes.length };
        await must(201, { method: 'PUT', path: `${place.pathname}${place.search}`, headers }, bytes);
      }
      return pushManifest(name, tag, manifestType, manifest.toString());
    },
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    stop,
    start,
    async close() {
      await stop();
      await rm(trusted, { recursive: true, force: true });
      await rm(home, { recursive: true, force: true });
    },
  };
}
