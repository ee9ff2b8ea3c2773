import { isSocketPath } from '../config.ts';
import { ApiError } from '../errors.ts';
import { recordAudit } from '../auth/audit.ts';
import { insertUser, makeCredentials, type Credentials } from '../auth/users.ts';
import { startServer } from '../server.ts';
import type { Command } from './commands.ts';
import { keepLocalRunner } from './local-runner.ts';
import { createLog } from './log.ts';
import { onTheMachine } from './machine.ts';
import { keepBallast, makeRoomToStart } from './room.ts';
import { openStore, type Store } from './store.ts';

/** How long a request may still take once the server has been asked to stop. */
const drainTime = 10_000;

export const serve: Command = {
  usage: 'serve [--host H] [--port P] [--no-runner]',
  about: 'Run the service',
  async run({ config, flags }) {
    const log = createLog(config.log_level);
    await makeRoomToStart(config, (message) => log.warn(message));
    const store = await openStore(config, (error) => log.error({ err: error }, 'the database is in trouble'));
    const server = await startServer({ config, store, log }).catch(async (error: unknown) => {
      await store.close();
      throw error;
    });
    // Only now: credentials that a failed start had made, nobody would ever see.
    const first = await firstUser(store);
    if (first) introduce(server.address, first);
    console.log(`listening on ${server.address}`);
    const ballast = keepBallast(config, store.disk);
    const local =
      flags.no_runner === undefined
        ? keepLocalRunner(config, {
            onGone: () => server.localRunnerGone(),
            onTrouble: ({ message }) => log.error(`the local runner does not start, so no build runs here: ${message}`),
          })
        : undefined;

    const stop = async (signal: NodeJS.Signals): Promise<void> => {
      log.info({ signal }, 'stopping');
      setTimeout(() => process.exit(1), drainTime).unref();
      ballast.close();
      await local?.stop();
      await server.close();
      await store.close();
      process.exit(0);
    };
    const stopOrDie = (signal: NodeJS.Signals): void => {
      stop(signal).catch((error: unknown) => {
        log.error({ err: error }, 'it was not stopped in good order');
        process.exit(1);
      });
    };
    process.once('SIGTERM', stopOrDie);
    process.once('SIGINT', stopOrDie);
  },
};

/** A service that nobody can use yet gets its first user. */
async function firstUser({ db, ids }: Store): Promise<Credentials | undefined> {
  const anybody = await db.read.selectFrom('users').select('id').limit(1).executeTakeFirst();
  if (anybody) return undefined;
  const email = 'admin@localhost';
  const { credentials, stored } = await makeCredentials(email);
  try {
    await db.transaction(async (trx) => {
      const id = await insertUser(trx, ids, { email, kind: 'user', secrets: stored });
      const deed = { action: 'user.created', subject: { id, name: email }, details: { kind: 'user' } } as const;
      await recordAudit(trx, ids, onTheMachine(), deed);
    });
  } catch (error) {
    if (error instanceof ApiError) return undefined; // a server that started beside this one was first
    throw error;
  }
  return credentials;
}

function introduce(address: string, { email, password, api_key: apiKey }: Credentials): void {
  console.log(`
Headrace is new here. Its first user, shown this once:

  address   ${isSocketPath(address) ? address : `${address}/`}
  e-mail    ${email}
  password  ${password}
  API key   ${apiKey}
`);
}
