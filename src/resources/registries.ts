import { accountRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedPlace, type RegistryRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../errors.ts';
import { required, text, type Field } from '../http/fields.ts';
import { normalHost } from '../lib/image-reference.ts';
import { registryRecord } from '../records/dependency.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, twin } from './common.ts';
import { orTaken } from './names.ts';

/** The credentials of an account for registries of images. */

function view({ id, host, username }: RegistryRow) {
  return { ...twin('id', id), host, username };
}

/** A registry as references name it: a host and maybe a port, in one spelling. */
function host(): Field<string> {
  const form = text('host', { description: 'a host, with its port where it has one: registry.example.org:5000' });
  return {
    ...form,
    parse(raw) {
      const found = normalHost(form.parse(raw).trim());
      if (found === undefined) throw new ApiError('invalid_format');
      return found;
    },
  };
}

const fields = {
  host: required(host()),
  // Both become one header, in which a colon stands between them.
  username: required(text('name', { pattern: /^[^:]+$/ })),
  password: required(text('registryPassword')),
};

async function checkHost(db: Queries, owner: bigint, name: string | undefined): Promise<FieldErrors> {
  if (name === undefined) return {};
  const named = db.selectFrom('registries').select('id').where('owner_id', '=', owner).where('host', '=', name);
  return (await named.executeTakeFirst()) === undefined ? {} : { host: ['already_exists'] };
}

interface RegistryInPath {
  db: Queries;
  caller: { id: bigint };
  params: { registry_id: bigint };
}

async function loadRegistry({ db, caller, params }: RegistryInPath): Promise<{ registry: RegistryRow }> {
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
    audit: {
      action: 'registry.created',
      details: ({ input }) => ({ host: input.host, username: input.username }),
    },
    async handle({ db, ids, vault, caller, input }) {
      const id = ids.next();
      const place = sealedPlace({ table: 'registries', column: 'password' }, id);
      const registry: RegistryRow = {
        id,
        owner_id: caller.id,
        host: input.host,
        username: input.username,
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
