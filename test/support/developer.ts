import { spawn, type ChildProcess } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { insertToken } from '../../src/server/auth/tokens.ts';
import { findUser } from '../../src/server/auth/users.ts';
import { openStore } from '../../src/cli/operator/store.ts';
import { readConfig } from '../../src/shared/config.ts';
import { commandLineId } from '../../src/server/db/command-line-client.ts';
import { scopes, type Scope } from '../../src/server/http/route.ts';
import { temporaryFolder } from './databases.ts';
import { Emulator } from './emulator.ts';
import type { Installation } from './installation.ts';
import { longestWait } from './pauses.ts';
import type { Service } from './service.ts';
import type { User } from './user.ts';

const program = join(import.meta.dirname, '../../bin/headrace');

export interface Ended {
  status: number | null;
  out: string;
  err: string;
}

export interface Sitting {
  /** What the person types. */
  input?: string;
  columns?: number;
  rows?: number;
  env?: Record<string, string>;
}

/** Somebody at their own machine: a folder with a clone, an environment, and the program. */
export class Developer {
  readonly home = temporaryFolder();
  /** Where they work. */
  readonly folder = join(this.home, 'work');
  readonly env: Record<string, string>;

  constructor(env: Record<string, string>) {
    mkdirSync(this.folder);
    this.env = { HOME: this.home, XDG_CONFIG_HOME: join(this.home, 'config'), ...env };
  }

  /** Somebody with a token in their environment. */
  static async of(service: Service, user: User, allowed = Object.keys(scopes) as Scope[]): Promise<Developer> {
    return new Developer({
      HEADRACE_URL: service.address,
      HEADRACE_TOKEN: await tokenOf(service, user, allowed),
      HEADRACE_CA_FILE: join(service.folder, 'tls', 'cert.pem'),
    });
  }

  /** Somebody with a token for a whole installation. */
  static async at(
    { env, folder, address }: Pick<Installation, 'env' | 'folder' | 'address'>,
    email: string,
    allowed = Object.keys(scopes) as Scope[],
  ): Promise<Developer> {
    const config = readConfig({ flags: { data_dir: folder }, env });
    const store = await openStore(config, (error) => {
      throw error;
    });
    try {
      return new Developer({
        HEADRACE_URL: address(),
        HEADRACE_TOKEN: await tokenOf({ store }, { email }, allowed),
        HEADRACE_CA_FILE: join(folder, 'tls', 'cert.pem'),
      });
    } finally {
      await store.close();
    }
  }

  /** A folder as git makes it, with this remote and branch. */
  clone(remote: string, branch = 'main'): void {
    const git = join(this.folder, '.git');
    for (const name of ['objects', 'refs']) mkdirSync(join(git, name), { recursive: true });
    writeFileSync(join(git, 'HEAD'), `ref: refs/heads/${branch}\n`);
    writeFileSync(join(git, 'config'), `[core]\n\tbare = false\n[remote "origin"]\n\turl = ${remote}\n`);
  }

  /** Runs a command without a terminal. */
  async run(args: string[], input = '', env: Record<string, string> = {}): Promise<Ended> {
    const child = this.#start(program, args, env);
    const ended = collect(child);
    child.stdin?.end(input);
    return ended;
  }

  /** Starts a command without a terminal; the caller talks to it. */
  start(args: string[], env: Record<string, string> = {}): { child: ChildProcess; ended: Promise<Ended> } {
    const child = this.#start(program, args, env);
    return { child, ended: collect(child) };
  }

  /** Starts a command in a terminal of its own. */
  sit(args: string[], { columns = 80, rows = 24, env = {} }: Sitting = {}): Terminal {
    const sized = { TERMINAL_COLUMNS: String(columns), TERMINAL_ROWS: String(rows), TERM: 'xterm-256color', ...env };
    const child = this.#start('/usr/bin/python3', [join(import.meta.dirname, 'terminal.py'), program, ...args], sized);
    return new Terminal(child, columns, rows);
  }

  #start(file: string, args: string[], env: Record<string, string>): ChildProcess {
    const { PATH = '' } = process.env;
    const child = spawn(file, args, { cwd: this.folder, env: { PATH, LANG: 'C.UTF-8', ...this.env, ...env } });
    // A test that fails leaves nothing running that would keep its process alive.
    const timer = setTimeout(() => child.kill('SIGKILL'), longestWait);
    child.on('close', () => clearTimeout(timer));
    return child;
  }
}

export async function tokenOf(
  service: { store: Pick<Service['store'], 'db' | 'ids'> },
  { email }: Pick<User, 'email'>,
  allowed: readonly Scope[],
): Promise<string> {
  const { db, ids } = service.store;
  const user = await findUser(db.read, email);
  if (!user) throw new Error(`nobody has the address ${email}`);
  const grant = { clientId: commandLineId, userId: user.id, scopes: allowed };
  return db.transaction(async (trx) => (await insertToken(trx, ids, grant, null)).token);
}

async function collect(child: ChildProcess): Promise<Ended> {
  let [out, err] = ['', ''];
  child.stdout?.on('data', (piece: Buffer) => (out += piece.toString()));
  child.stderr?.on('data', (piece: Buffer) => (err += piece.toString()));
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.on('close', resolve);
  return { status: await promise, out, err };
}

/** A terminal with a program in it: what it was sent, and what is to be seen. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #screen: Emulator;
  readonly #ended: Promise<number | null>;
  #changed = Promise.withResolvers<void>();
  #isOver = false;
  /** Every byte that the program has sent to it. */
  raw = '';

  constructor(child: ChildProcess, columns: number, rows: number) {
    this.#child = child;
    this.#screen = new Emulator(columns, rows);
    const { promise, resolve } = Promise.withResolvers<number | null>();
    this.#ended = promise;
    child.stdout?.setEncoding('utf8').on('data', (piece: string) => {
      this.raw += piece;
      this.#screen.write(piece);
      this.#changed.resolve();
      this.#changed = Promise.withResolvers();
    });
    child.on('close', (status) => {
      this.#isOver = true;
      resolve(status);
      this.#changed.resolve();
    });
  }

  /** Everything that a person can see, also what has left the screen upwards. */
  get text(): string {
    return this.#screen.text;
  }

  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  /** Waits until this is to be seen, or, where it is wider than the screen, was sent. */
  async until(sight: RegExp): Promise<void> {
    while (!sight.test(this.text) && !sight.test(this.raw)) {
      if (this.#isOver) throw new Error(`it ended without ${String(sight)}:\n${this.text}`);
      await this.#changed.promise;
    }
  }

  /** The exit status, once it has ended. */
  end(): Promise<number | null> {
    return this.#ended;
  }
}
