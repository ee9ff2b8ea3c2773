import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');

export interface Running {
  url: string;
  pid: number;
  /** Milliseconds from the start of the process to its line `listening on …`. */
  startedIn: number;
  output: string;
  stop(): Promise<void>;
}

/** Starts a program and waits for its line `listening on …`. */
export async function start(program: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<Running> {
  const startedAt = performance.now();
  const child: ChildProcess = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      const match = /^listening on (\S+)$/m.exec(output);
      if (match?.[1]) resolve(match[1]);
    });
    child.once('exit', (status) => reject(new Error(`${program} ended with ${status}`)));
  });
  return {
    url,
    pid: child.pid ?? 0,
    startedIn: performance.now() - startedAt,
    output,
    async stop() {
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}

export interface Service extends Running {
  dataDir: string;
  authorization: string;
  /** For changes that are easier in the database than by many requests. */
  databaseUrl: string;
}

/** The cores that this process may use, by number. */
export function usableCores(): number[] {
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

interface HeadraceOptions {
  flags?: string[];
  /** Server, runner and builds get only this core, as if the machine had no other. */
  core?: number | undefined;
}

/** A new Headrace, in a folder that is removed at its end. */
export async function startHeadrace(
  dataDir = mkdtempSync(join(tmpdir(), 'headrace-bench-')),
  env: NodeJS.ProcessEnv = {},
  { flags = [], core }: HeadraceOptions = {},
): Promise<Service> {
  const program = [join(root, 'bin', 'headrace'), 'serve', '--port', '0', '--data-dir', dataDir, ...flags];
  const pinned = core === undefined ? [] : ['taskset', '--cpu-list', String(core)];
  const [first = '', ...args] = [...pinned, ...program];
  const running = await start(first, args, env);
  const key = /API key\s+(\S+)/.exec(running.output)?.[1] ?? '';
  return {
    ...running,
    dataDir,
    databaseUrl: env.HEADRACE_DATABASE_URL ?? join(dataDir, 'headrace.db'),
    authorization: `Basic ${Buffer.from(`admin@localhost:${key}`).toString('base64')}`,
    async stop() {
      await running.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** A bare server that writes each body to the same file. */
export async function startBareUpload(service: Service): Promise<Running> {
  const program = join(import.meta.dirname, 'bare-upload.ts');
  return start(process.execPath, [program, join(service.dataDir, 'tls'), join(service.dataDir, 'bare-upload')]);
}

export function residentMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024;
}

export async function call<T>(
  service: Service,
  path: string,
  form?: Record<string, string> | [name: string, value: string][],
  method: 'POST' | 'PUT' = 'POST',
): Promise<T> {
  const headers = { authorization: service.authorization, 'content-type': 'application/x-www-form-urlencoded' };
  const init = form ? { method, body: new URLSearchParams(form).toString(), headers } : { headers };
  const answer = await fetch(`${service.url}${path}`, init);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  const { response } = (await answer.json()) as { response: T };
  return response;
}
