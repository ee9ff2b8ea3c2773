import { accountRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type RegistryRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { registryFields, registryRecord } from '../../shared/records/dependency.ts';
import { columnsOf, required, text, valuesIn } from '../../shared/records/fields.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InAccount } from './common.ts';
import { orTaken } from './names.ts';

function view(registry: RegistryRow) {
  return { ...withIdString('id', registry.id), ...valuesIn(registryFields, registry) };
}

const fields = { ...registryFields, password: required(text('registryPassword')) };

async function checkHost(db: Queries, owner: bigint, name: string | undefined): Promise<FieldErrors> {
  if (name === undefined) return {};
  const named = db.selectFrom('registries').select('id').where('owner_id', '=', owner).where('host', '=', name);
  return (await named.executeTakeFirst()) === undefined ? {} : { host: ['already_exists'] };
}

async function loadRegistry({ db, caller, params }: InAccount<'registry_id'>): Promise<{ registry: RegistryRow }> {
  const query = db.selectFrom('registries').selectAll().where('id', '=', params.registry_id);
  return { registry: orNotFound(await query.where('owner_id', '=', caller.id).executeTakeFirst()) };
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/registries',
    access: 'users',
    scope: 'dependencies',
    summary: 'List the registries of images that you have credentials for',
    answer: listOf(registryRecord),
    async handle({ db, caller }) {
      const rows = db.selectFrom('registries').selectAll().where('owner_id', '=', caller.id).orderBy('id');
      return (await rows.execute()).map(view);
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/registries',
    access: 'users',
    scope: 'dependencies',
    summary: 'Add your credentials for a registry of images; the password is never shown',
    body: fields,
    creates: 'registries',
    answer: registryRecord,
    verify: ({ db, caller }, values) => checkHost(db, caller.id, values.host),
    audit: { action: 'registry.created', details: ({ input }) => columnsOf(registryFields, input) },
    async handle({ db, ids, vault, caller, input }) {
      const id = ids.next();
      const place = sealedLocation({ table: 'registries', column: 'password' }, id);
      const registry: RegistryRow = {
        id,
        owner_id: caller.id,
        ...columnsOf(registryFields, input),
        password: await sealIn(db, vault, input.password, place),
        created_at: BigInt(Date.now()),
      };
      await orTaken(db.insertInto('registries').values(registry).execute(), 'host');
      return view(registry);
    },
  }),
  accountRoute({
    method: 'DELETE',
    path: '/registries/:registry_id',
    access: 'users',
    scope: 'dependencies',
    summary: 'Delete your credentials for a registry; images that need them cannot be pulled any more',
    answer: destroyedAnswer,
    load: loadRegistry,
    audit: { action: 'registry.deleted', subject: ({ registry: { id, host: name } }) => ({ id, name }) },
    async handle({ db, registry }) {
      await db.deleteFrom('registries').where('id', '=', registry.id).execute();
      return destroyed;
    },
  }),
];
