import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { before, describe } from 'node:test';
import { pino } from 'pino';
import { insertUser, updateUser, type Credentials } from '../../src/server/auth/users.ts';
import { openStore, type Store } from '../../src/cli/operator/store.ts';
import { readConfig, type Config } from '../../src/shared/config.ts';
import { hashPassword, hashSecret, randomPassword, randomSecret } from '../../src/shared/lib/passwords.ts';
import { startServer, type RunningServer, type ServerParts } from '../../src/server/server.ts';
import { Client } from './client.ts';
import { copyTables, onEveryDatabase, onOneDatabase, type TestDatabase } from './databases.ts';
import { temporaryFolder } from './folders.ts';
import { copyCertificate } from './templates.ts';
import { User } from './user.ts';

interface Parts {
  folder: string;
  config: Config;
  store: Store;
  server: RunningServer;
  api: Client;
}

/** Options that differ from the usual ones. */
export interface ServiceOptions extends Pick<
  ServerParts,
  'now' | 'webhooks' | 'streamPauseMs' | 'connectionTimes' | 'hookBodies' | 'tracer' | 'forgePaceMs'
> {
  settings?: Record<string, string>;
  checkMs?: number;
  /** Whether it makes everything by itself, also a certificate that no other server of the tests has. */
  isNew?: boolean;
}

type Place = Pick<TestDatabase, 'kind' | 'migratedUrl' | 'afterwards'>;

/** Tests make thousands of accounts, so hashing passwords must be cheap. */
const cheap = { memory: 8, passes: 1, parallelism: 1, tagLength: 32 };

/** The real server, over TLS, on its own database and data folder. */
export class Service {
  readonly #database: Place;
  readonly #options: ServiceOptions;
  #parts: Parts | undefined;
  #users = 0;
  /** The whole log, at the most detailed level. */
  log = '';

  constructor(database: Place, options: ServiceOptions = {}) {
    this.#database = database;
    this.#options = options;
  }

  async start(): Promise<void> {
    const folder = temporaryFolder();
    const { checkMs, isNew = false, ...options } = this.#options;
    if (!isNew) copyCertificate(folder);
    const flags = { data_dir: folder, port: '0', ...(await this.#tables(folder)), ...this.#options.settings };
    const config = readConfig({ flags, env: {} });
    const store = await openStore(config, (error) => {
      throw error;
    });
    const log = pino({ level: 'trace' }, this.#logStream());
    const services = checkMs === undefined ? store : { ...store, checkMs };
    const server = await startServer({ config, store: services, log, ...options });
    const certificate = readFileSync(join(folder, 'tls', 'cert.pem'), 'utf8');
    this.#database.afterwards(() => this.stop());
    this.#parts = { folder, config, store, server, api: new Client(server.address, certificate) };
  }

  async stop(): Promise<void> {
    this.api.close();
    await this.#started.server.close();
    await this.store.close();
    rmSync(this.folder, { recursive: true });
    this.#parts = undefined;
    this.log = '';
  }

  get api(): Client {
    return this.#started.api;
  }

  get store(): Store {
    return this.#started.store;
  }

  get folder(): string {
    return this.#started.folder;
  }

  get config(): Config {
    return this.#started.config;
  }

  get address(): string {
    return this.#started.server.address;
  }

  /** Reports the death of the local runner, as its supervisor does. */
  loseRunner(): void {
    this.#started.server.localRunnerGone();
  }

  /** A new user with an account. */
  async user(kind: 'user' | 'collaborator' = 'user'): Promise<User> {
    this.#users += 1;
    const email = `person${this.#users}@example.org`;
    const credentials = { email, password: randomPassword(), api_key: randomSecret('hrk') };
    const secrets = {
      password_hash: await hashPassword(credentials.password, cheap),
      api_key_hash: hashSecret(credentials.api_key),
    };
    const { db, ids } = this.store;
    await db.transaction((trx) => insertUser(trx, ids, { email, kind, secrets }));
    return this.signIn(credentials);
  }

  signIn(credentials: Credentials): User {
    return new User(this.api, credentials);
  }

  async suspend(user: User): Promise<void> {
    await this.store.db.transaction((trx) => updateUser(trx, user.email, { suspended: 1 }));
  }

  async stopPaying(user: User, billing: 'trial_ended' | 'overdue' = 'overdue'): Promise<void> {
    await this.store.db.transaction((trx) => updateUser(trx, user.email, { billing }));
  }

  /** Copies existing tables: creating them takes longer than starting. */
  async #tables(folder: string): Promise<{ database_url?: string }> {
    if (this.#options.settings?.database_url !== undefined) return {};
    if (this.#database.kind === 'postgres') return { database_url: await this.#database.migratedUrl() };
    if (!this.#options.isNew) copyTables(join(folder, 'headrace.db'));
    return {};
  }

  #logStream(): Writable {
    return new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        this.log += chunk.toString();
        done();
      },
    });
  }

  get #started(): Parts {
    if (!this.#parts) throw new Error('the service runs only inside tests');
    return this.#parts;
  }
}

type DefineService = (service: Service, database: TestDatabase) => void;

/** Runs the same tests against a service on each database. */
export function describeService(name: string, define: DefineService, options: ServiceOptions = {}): void {
  describe(name, () => onEveryDatabase((database) => startedFor(database, define, options)));
}

/** The same where the database does not matter (see `onOneDatabase`). */
export function describeServiceOnOne(name: string, define: DefineService, options: ServiceOptions = {}): void {
  describe(name, () => onOneDatabase((database) => startedFor(database, define, options)));
}

function startedFor(database: TestDatabase, define: DefineService, options: ServiceOptions): void {
  const service = new Service(database, options);
  before(() => service.start());
  define(service, database);
}
