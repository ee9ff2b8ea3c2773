import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { startReal, whyNo } from './real-servers.ts';

/** A real MinIO, which can be killed and started again where it was. */
export interface Minio {
  endpoint: string;
  /** What the program finds in its environment. */
  credentials: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string };
  bucket: string;
  start(): Promise<void>;
  /** As a machine that loses its power. */
  kill(): Promise<void>;
}

/** Why there is no MinIO on this machine; false where there is one. */
export const whyNoMinio = whyNo('minio', 'MinIO');

export async function startMinio(folder: string): Promise<Minio> {
  const port = await freePort();
  const bucket = 'blobs';
  mkdirSync(join(folder, 'data', bucket), { recursive: true });
  const begin = () => startReal('minio', [folder, String(port)]);
  let running = await begin();
  const { endpoint, key, secret } = running.told as { endpoint: string; key: string; secret: string };
  return {
    endpoint,
    credentials: { AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret },
    bucket,
    start: async () => {
      running = await begin();
    },
    kill: () => running.kill(),
  };
}
