import { recordAudit } from '../auth/audit.ts';
import { findUser } from '../auth/users.ts';
import {
  allClients,
  applicationCreated,
  deleteClient,
  findClient,
  insertClient,
  mistakesIn,
  type Client,
} from '../oauth/clients.ts';
import { print, readEmail } from './admin.ts';
import { UsageError, type Command } from './commands.ts';
import { onTheMachine } from './machine.ts';

const usage = 'admin app create --user EMAIL --name N --redirect-uri R... [--public]';

/** Application commands for operators; people do the same on the applications page. */
export const appAdmin: Command[] = [
  {
    usage,
    about: 'Register an OAuth application and print its secret, once; a public one has none and uses PKCE',
    run: ({ config, flags, lists }) => {
      const { user, name } = flags;
      const { redirect_uri: redirectUris } = lists;
      if (user === undefined || name === undefined || redirectUris === undefined) {
        throw new UsageError(`usage:\n  headrace ${usage}`);
      }
      return print(config, async ({ db, ids }) => {
        const email = readEmail(user);
        const form = { name, redirectUris, isPublic: flags.public !== undefined };
        const [mistake] = Object.values(mistakesIn(form));
        if (mistake !== undefined) throw new Error(mistake);
        const owner = await findUser(db.read, email);
        if (!owner) throw new Error(`there is no account ${email}`);
        const { clientId, secret } = await db.transaction(async (trx) => {
          const registration = { ...form, ownerId: owner.id };
          const made = await insertClient(trx, ids, registration);
          await recordAudit(trx, ids, onTheMachine(), applicationCreated(made.clientId, registration));
          return made;
        });
        return { client_id: String(clientId), ...(secret === undefined ? {} : { client_secret: secret }) };
      });
    },
  },
  {
    usage: 'admin app list',
    about: 'Print every registered application and who registered it',
    run: ({ config }) => print(config, async ({ db }) => ({ applications: (await allClients(db.read)).map(view) })),
  },
  {
    usage: 'admin app delete CLIENT_ID',
    about: 'Delete an application; every token that people gave it stops working',
    run: ({ config, values: [id = ''] }) =>
      print(config, async ({ db, ids }) => {
        const client = await findClient(db.read, id);
        if (!client) throw new Error(`there is no application ${id}`);
        if (client.ownerId === null) throw new Error(`${client.name} comes with the program and cannot be deleted`);
        await db.transaction(async (trx) => {
          await deleteClient(trx, client);
          await recordAudit(trx, ids, onTheMachine(), { action: 'application.deleted', subject: client });
        });
        return { client_id: id, name: client.name, deleted: true };
      }),
  },
];

function view({ id, name, owner, isPublic, redirectUris }: Client & { owner: string }): object {
  return { client_id: String(id), name, user: owner, public: isPublic, redirect_uris: redirectUris };
}
