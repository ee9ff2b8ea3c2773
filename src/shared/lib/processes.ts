import { spawn, type SpawnOptions } from 'node:child_process';

export interface Finished {
  /** null if a signal ended the process. */
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: Buffer;
  stderr: Buffer;
}

export interface RunOptions extends Pick<SpawnOptions, 'cwd' | 'env' | 'uid' | 'gid'> {
  input?: string | Uint8Array;
  /** Ends the process with SIGKILL. `run` then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Output beyond this is read and dropped. */
  maxOutput?: number;
}

/** A failing exit status is a result, not an error. */
export function run(program: string, args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const { input, signal, maxOutput = 16 * 1024 * 1024, ...rest } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Finished>();
  if (signal?.aborted) {
    reject(signal.reason);
    return promise;
  }
  const child = spawn(program, args, { ...rest, stdio: ['pipe', 'pipe', 'pipe'] });
  const stop = (): void => void child.kill('SIGKILL');
  signal?.addEventListener('abort', stop, { once: true });
  const stdout = collect(child.stdout, maxOutput);
  const stderr = collect(child.stderr, maxOutput);
  child.stdin.on('error', () => {}); // a program that does not read its input is no error
  child.stdin.end(input);
  child.on('error', reject);
  child.on('close', (status, endedBy) => {
    signal?.removeEventListener('abort', stop);
    if (signal?.aborted) reject(signal.reason);
    else resolve({ status, signal: endedBy, stdout: stdout(), stderr: stderr() });
  });
  return promise;
}

function collect(stream: NodeJS.ReadableStream, limit: number): () => Buffer {
  const chunks: Buffer[] = [];
  let size = 0;
  stream.on('data', (chunk: Buffer) => {
    if (size < limit) chunks.push(chunk.subarray(0, limit - size));
    size += chunk.length;
  });
  return () => Buffer.concat(chunks);
}
