import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { openStore, type Store } from '../../src/cli/operator/store.ts';
import { holderOf, insertRunner, type Runner } from '../../src/server/auth/runners.ts';
import { insertUser } from '../../src/server/auth/users.ts';
import { createDispatch, type Dispatch } from '../../src/server/dispatch/dispatch.ts';
import { configuringFrom } from '../../src/server/resources/config-repository.ts';
import { routes } from '../../src/server/resources/index.ts';
import { startServer } from '../../src/server/server.ts';
import { readConfig } from '../../src/shared/config.ts';
import { hashPassword, hashSecret, randomSecret } from '../../src/shared/lib/passwords.ts';
import { version } from '../../src/shared/protocol/index.ts';
import { Client } from '../../test/support/client.ts';
import { machines, people } from './plan.ts';

export const password = 'a week of work';

type Call = (
  method: 'GET' | 'POST',
  path: string,
  form?: Record<string, string>,
  headers?: Record<string, string>,
) => Promise<Record<string, unknown> & { id_str: string }>;

export interface Machine {
  self: Runner;
  name: string;
  builds: number;
  tags: string;
}

export interface Running {
  address: string;
  store: Store;
  /** The runners' side: the script does their work. */
  dispatch: Dispatch;
  as: (email: string) => Call;
  /** The runners of the folder; new in an empty one. */
  machines(): Promise<Machine[]>;
  /** A machine is heard. */
  hear(machine: Machine): Promise<void>;
  close(): Promise<void>;
}

const trouble = (error: unknown): void => console.error(error);
const resolve = async () => [{ address: '127.0.0.1', family: 4 }];

/** A whole server in this process, without a runner of its own. */
export async function startRunning(folder: string, settings: Record<string, string> = {}): Promise<Running> {
  const flags = { data_dir: folder, port: '0', webhook_allow: '127.0.0.0/8', ...settings };
  const config = readConfig({ flags, env: {} });
  const store = await openStore(config, trouble);
  const log = pino({ level: 'error' });
  const server = await startServer({ config, store, log, webhooks: { resolve } });
  const dispatch = await createDispatch({
    ...store,
    log,
    limits: { memoryBytes: 2 ** 31, processes: 4096, timeoutSeconds: config.build_timeout },
    unpacked: { bytes: 2 ** 30, entries: 100_000 },
    artifacts: { mostFiles: 10_000, mostBytes: 2 ** 30 },
    logBytes: 2 ** 29,
    cacheBytes: 2 ** 30,
    accountConcurrency: 0,
    configure: configuringFrom(routes, store, ''),
    identity: { issue: async () => ({}) },
    api: () => ({ url: server.address, listens: { host: '127.0.0.1', port: config.port } }),
  });
  const client = new Client(server.address, readFileSync(join(folder, 'tls', 'cert.pem'), 'utf8'));
  const keys = await addPeople(store);
  const { db, ids } = store;
  return {
    address: server.address,
    store,
    dispatch,
    as: (email) => async (method, path, form, headers) => {
      const as = { email, api_key: keys.get(email) ?? '' };
      // Values of one list, which a record could not have.
      const pairs = Object.entries(form ?? {}).map(([name, value]) => [name.replace(/\[\d+\]$/, '[]'), value]);
      const sent = { ...(headers ? { headers } : { as }), ...(form ? { form: pairs as [string, string][] } : {}) };
      const answer = await client.ask(method, path, sent);
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.record;
    },
    async machines() {
      const known = (await db.read.selectFrom('runners').select('id').execute()).length > 0;
      for (const { name } of known ? [] : machines) await db.transaction((trx) => insertRunner(trx, ids, name));
      const rows = await db.read.selectFrom('runners').select(['id', 'name', 'token_hash']).execute();
      return machines.flatMap(({ name, builds, tags }) => {
        const row = rows.find((one) => one.name === name);
        return row
          ? [{ name, builds, tags, self: { holder: holderOf(row), id: row.id, tokenHash: row.token_hash, tags } }]
          : [];
      });
    },
    hear: ({ self, builds, tags }) => dispatch.came(self, { version, trouble: '', tags, slots: builds }),
    async close() {
      client.close();
      await dispatch.close();
      await server.close();
      await store.close();
    },
  };
}

/** Their keys, if the folder is new. */
async function addPeople({ db, ids }: Store): Promise<Map<string, string>> {
  const keys = new Map<string, string>();
  if (await db.read.selectFrom('users').select('id').executeTakeFirst()) return keys;
  for (const email of people) {
    const key = randomSecret('hrk');
    const secrets = { password_hash: await hashPassword(password), api_key_hash: hashSecret(key) };
    await db.transaction((trx) => insertUser(trx, ids, { email, kind: 'user', secrets }));
    keys.set(email, key);
  }
  return keys;
}
