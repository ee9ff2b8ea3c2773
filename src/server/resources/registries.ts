import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type RegistryRow } from '../db/schema.ts';
import { registryFields, registryRecord } from '../../shared/records/dependency.ts';
import { columnsOf, required, text, valuesIn } from '../../shared/records/fields.ts';
import { withIdString } from './common.ts';
import { orTaken } from './names.ts';
import { accountRecords, byQuery, loadAccount, ownedBy } from './record-routes.ts';

function view(registry: RegistryRow) {
  return { ...withIdString('id', registry.id), ...valuesIn(registryFields, registry) };
}

const registries = accountRecords({
  path: '/registries',
  name: 'registry',
  access: 'users',
  scope: 'dependencies',
  fields: { ...registryFields, password: required(text('registryPassword')) },
  answer: registryRecord,
  inOrganisation: { reads: 'maintainer', writes: 'maintainer' },
  inside: loadAccount,
  rows: ({ db, account }) => byQuery(db.selectFrom('registries').selectAll().where(ownedBy(account))),
  view,
  async verify({ db, account }, { host }) {
    if (host === undefined) return {};
    const named = db.selectFrom('registries').select('id').where('owner_id', '=', account).where('host', '=', host);
    return (await named.executeTakeFirst()) === undefined ? {} : { host: ['already_exists'] };
  },
  subject: ({ id, host }) => ({ id, name: host }),
});

export const routes = [
  registries.list('List the registries of images that you, or an organisation, have credentials for'),
  registries.create('Add your credentials for a registry of images; the password is never shown', {
    creates: 'registries',
    details: ({ input }) => columnsOf(registryFields, input),
    async handle({ db, ids, vault, account, input }) {
      const id = ids.next();
      const place = sealedLocation({ table: 'registries', column: 'password' }, id);
      const registry: RegistryRow = {
        id,
        owner_id: account,
        ...columnsOf(registryFields, input),
        password: await sealIn(db, vault, input.password, place),
        created_at: BigInt(Date.now()),
      };
      await orTaken(db.insertInto('registries').values(registry).execute(), 'host');
      return view(registry);
    },
  }),
  registries.remove('Delete your credentials for a registry; images that need them can no longer be pulled', {
    handle: ({ db, registry }) => db.deleteFrom('registries').where('id', '=', registry.id).execute(),
  }),
];
