import { recordAudit } from '../../server/auth/audit.ts';
import {
  allClients,
  deleteClient,
  findClient,
  insertClient,
  mistakeIn,
  type Client,
} from '../../server/oauth/clients.ts';
import { accountOf, print } from './admin.ts';
import type { Call } from './call.ts';
import { onTheMachine } from './machine.ts';

interface NewApp {
  user: string;
  name: string;
  redirectUri: string[];
  public?: true;
}

export async function createApp({ config, options }: Call<NewApp>): Promise<void> {
  await print(config, async ({ db, ids }) => {
    const { user, name, redirectUri: redirectUris } = options;
    const form = { name, redirectUris, isPublic: options.public === true };
    const mistake = mistakeIn(form);
    if (mistake !== undefined) throw new Error(mistake);
    const owner = await accountOf(db.read, user);
    const { client, secret } = await db.transaction(async (trx) => {
      const made = await insertClient(trx, ids, { ...form, ownerId: owner.id });
      const details = { public: form.isPublic, redirect_uris: redirectUris };
      await recordAudit(trx, ids, onTheMachine(), { action: 'application.created', subject: made.client, details });
      return made;
    });
    return { client_id: String(client.id), ...(secret === undefined ? {} : { client_secret: secret }) };
  });
}

export async function listApps({ config }: Call): Promise<void> {
  await print(config, async ({ db }) => ({ applications: (await allClients(db.read)).map(view) }));
}

export async function deleteApp({ config }: Call, id: string): Promise<void> {
  await print(config, async ({ db, ids }) => {
    const client = await findClient(db.read, id);
    if (!client) throw new Error(`there is no application ${id}`);
    if (client.ownerId === null && client.documentUrl === null)
      throw new Error(`${client.name} comes with the program and cannot be deleted`);
    await db.transaction(async (trx) => {
      await deleteClient(trx, client);
      await recordAudit(trx, ids, onTheMachine(), { action: 'application.deleted', subject: client });
    });
    return { client_id: id, name: client.name, deleted: true };
  });
}

function view({ id, name, owner, isPublic, redirectUris }: Client & { owner: string }): object {
  return { client_id: String(id), name, user: owner, public: isPublic, redirect_uris: redirectUris };
}
