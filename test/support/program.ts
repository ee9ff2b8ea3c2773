import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, type Finished } from '../../src/shared/lib/processes.ts';
import { Client } from './client.ts';
import type { TestDatabase } from './databases.ts';

const program = join(import.meta.dirname, '../../bin/headrace');

/** Without settings for Headrace from the tests' own environment. */
function environment(extra: Record<string, string>): NodeJS.ProcessEnv {
  const foreign = new Set(['NODE_OPTIONS', 'NODE_TEST_CONTEXT', 'INVOCATION_ID', 'NOTIFY_SOCKET']);
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('HEADRACE') && !foreign.has(name));
  return { ...Object.fromEntries(own), ...extra };
}

/** Runs a command of the program to its end. */
export function headrace(args: string[], env: Record<string, string> = {}): Promise<Finished> {
  return run(program, args, { env: environment(env) });
}

export interface Serving {
  process: ChildProcess;
  address: string;
  api: Client;
  /** Its standard output up to the line that says it listens. */
  output: string;
  /** Its whole log so far. */
  log(): string;
  exited: Promise<unknown>;
}

export interface ServeOptions {
  runner?: boolean;
  port?: number;
  /** Where it does not make one of its own. */
  certificate?: string;
  /** A command that runs it, such as one that enters a namespace. */
  within?: string[];
}

/** Starts the program as a process of its own and waits until it listens. It does not outlive the tests of the block. */
export async function serve(
  { afterwards }: Pick<TestDatabase, 'afterwards'>,
  folder: string,
  env: Record<string, string> = {},
  { runner = false, port = 0, certificate, within = [] }: ServeOptions = {},
): Promise<Serving> {
  const args = ['serve', '--data-dir', folder, '--port', String(port), ...(runner ? [] : ['--no-runner'])];
  const [first = program, ...words] = [...within, program, ...args];
  const child = spawn(first, words, { env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
  afterwards(() => void child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  let output = '';
  let errors = '';
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString();
    const [, address] = /^listening on (.*)$/m.exec(output) ?? [];
    if (address !== undefined && output.endsWith('\n')) resolve(address);
  });
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  child.once('exit', () => reject(new Error(`it ended: ${output}${errors}`)));
  const address = await promise;
  const api = new Client(address, certificate ?? readFileSync(join(folder, 'tls', 'cert.pem'), 'utf8'));
  return { process: child, address, api, output, log: () => errors, exited };
}

export interface Started {
  process: ChildProcess;
  /** Its whole output so far. */
  said(): string;
  /** Its exit status, or the signal that ended it. */
  exited: Promise<number | NodeJS.Signals>;
}

/** Starts a command of the program that keeps running. It is ended after the tests of the block. */
export function startProgram(
  { afterwards }: Pick<TestDatabase, 'afterwards'>,
  args: string[],
  env: Record<string, string> = {},
  within: string[] = [],
): Started {
  const [first = program, ...words] = [...within, program, ...args];
  const child = spawn(first, words, { env: environment(env), stdio: ['ignore', 'pipe', 'pipe'] });
  afterwards(() => void child.kill('SIGKILL'));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const exited = once(child, 'close').then(([status, signal]) => (status ?? signal) as number | NodeJS.Signals);
  return { process: child, said: () => said, exited };
}
