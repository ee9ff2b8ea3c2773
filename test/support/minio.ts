import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from './ports.ts';

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

const { HEADRACE_TEST_SERVERS: named } = process.env;
const program = join(named ?? resolve(import.meta.dirname, '..', '..', '..', 'shared', 'servers'), 'minio');

/** Why there is no MinIO on this machine; false where there is one. In a folder that was named there is one that runs here. */
export const whyNoMinio: string | false = !existsSync(program)
  ? `there is no MinIO at ${program}`
  : named === undefined && process.arch !== 'x64' && 'MinIO is there for x86-64 alone';

export async function startMinio(folder: string): Promise<Minio> {
  const port = await freePort();
  const bucket = 'blobs';
  mkdirSync(join(folder, 'data', bucket), { recursive: true });
  let running: ChildProcess | undefined;
  const start = async (): Promise<{ endpoint: string; key: string; secret: string }> => {
    // A group of its own, because the program is started by a script.
    running = spawn(program, [folder, String(port)], { stdio: ['ignore', 'pipe', 'inherit'], detached: true });
    assert.ok(running.stdout);
    const [line] = (await once(createInterface({ input: running.stdout }), 'line')) as [string];
    return JSON.parse(line) as { endpoint: string; key: string; secret: string };
  };
  const { endpoint, key, secret } = await start();
  return {
    endpoint,
    credentials: { AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret },
    bucket,
    start: async () => void (await start()),
    async kill() {
      if (running?.pid === undefined || running.exitCode !== null || running.signalCode !== null) return;
      const ended = once(running, 'exit');
      process.kill(-running.pid, 'SIGKILL');
      await ended;
    },
  };
}
