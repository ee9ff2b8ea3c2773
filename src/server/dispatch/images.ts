import type { Queries } from '../db/open.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import { sealedLocation, type JobRow, type RegistryRow } from '../db/schema.ts';
import { parseImageReference } from '../../shared/domain/image-reference.ts';
import { servicesIn } from '../lifecycle/build-services.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { ImageBuildsOrder, ImageOrder, RegistryAccess } from '../../shared/protocol/index.ts';
import { jobOf } from '../queue/leases.ts';
import type { JobContext } from './job-handler.ts';

export function imageOrder(reference: string, accountId: bigint): { image?: ImageOrder } {
  return reference === '' ? {} : { image: { reference, accountId: String(accountId) } };
}

/**
 * The image may have changed since the order was made. So the response names the registry, and the runner sends the
 * credentials only there.
 */
export async function registryOf(
  db: Queries,
  vault: Vault,
  holder: string,
  { claim, service }: { claim: string; service?: string },
): Promise<RegistryAccess | undefined> {
  const job = await jobOf(db, claim);
  if (job?.holder !== holder) return undefined;
  const host = parseImageReference((await imageOf(db, job, service)) ?? '')?.host;
  if (host === undefined) return undefined;
  const found = await db
    .selectFrom('registries')
    .selectAll()
    .where('owner_id', '=', job.account_id)
    .where('host', '=', host)
    .executeTakeFirst();
  return found ? { host, ...accessIn(vault, found) } : { host };
}

export async function imageBuildsOrder(
  { trx, vault }: Pick<JobContext, 'trx' | 'vault'>,
  accountId: bigint | null,
): Promise<ImageBuildsOrder> {
  if (accountId === null) return { registries: [] };
  const all = trx.selectFrom('registries').selectAll().where('owner_id', '=', accountId).orderBy('id');
  const rows = await all.execute();
  return { registries: rows.map((row) => ({ host: row.host, ...accessIn(vault, row) })) };
}

function accessIn(
  vault: Vault,
  { id, username, password }: RegistryRow,
): Pick<Required<RegistryAccess>, 'username' | 'password'> {
  return { username, password: vault.open(password, sealedLocation({ table: 'registries', column: 'password' }, id)) };
}

async function imageOf(
  db: Queries,
  job: Pick<JobRow, 'kind' | 'subject_id'>,
  service?: string,
): Promise<string | undefined> {
  if (['run_suite', 'check_inputs'].includes(job.kind)) {
    const builds = db.selectFrom('builds').selectAll().where('id', '=', job.subject_id);
    const build = await builds.executeTakeFirst();
    const settings = build && (await settingsOf(db, build));
    if (service === undefined || !settings) return settings?.image;
    return servicesIn(settings.services).find(({ name }) => name === service)?.image;
  }
  if (job.kind !== 'compile_dependency') return undefined;
  const dependencies = db.selectFrom('dependencies').select('image').where('id', '=', job.subject_id);
  return (await dependencies.executeTakeFirst())?.image;
}
