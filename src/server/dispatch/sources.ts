import type { Queries } from '../db/open.ts';
import { sealedLocation, type ProjectRow } from '../db/schema.ts';
import { parseGitAddress } from '../../shared/domain/git-address.ts';
import { gitCredential, isOpened } from '../forges/git-credential.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { tokenLocation } from '../lifecycle/forges.ts';
import type { Access, HttpsCredential, Source } from '../../shared/protocol/index.ts';
import { jobOf } from '../queue/leases.ts';

type Fetched = Pick<ProjectRow, 'id' | 'clone_url' | 'ssh_private_key' | 'forge_id' | 'forge_git_origin'>;

export async function sourceOf(db: Queries, vault: Vault, project: Fetched): Promise<Source> {
  const location = sealedLocation({ table: 'projects', column: 'ssh_private_key' }, project.id);
  const credential = await credentialOf(db, vault, project);
  return {
    projectId: String(project.id),
    repositoryUrl: project.clone_url,
    privateKey: vault.open(project.ssh_private_key, location),
    ...(credential && { credential }),
  };
}

/** The token goes only to the origin of its forge. */
async function credentialOf(
  db: Queries,
  vault: Vault,
  { clone_url: address, forge_id: id, forge_git_origin: confirmed }: Fetched,
): Promise<HttpsCredential | undefined> {
  if (id === null || parseGitAddress(address)?.scheme !== 'https') return undefined;
  const forges = db.selectFrom('forges').select(['id', 'provider', 'url', 'login', 'token']);
  const forge = await forges.where('id', '=', id).where('deleted_at', 'is', null).executeTakeFirst();
  if (!forge || !isOpened(forge, confirmed, address)) return undefined;
  return gitCredential(forge, vault.open(forge.token, tokenLocation(forge.id)));
}

/** For a build that this holder runs or checks now. All other orders contain their access. */
export async function accessFor(db: Queries, vault: Vault, holder: string, claim: string): Promise<Access | undefined> {
  const job = await jobOf(db, claim);
  if (job?.holder !== holder || !['run_suite', 'check_inputs'].includes(job.kind)) return undefined;
  const project = await db
    .selectFrom('builds')
    .innerJoin('projects', 'projects.id', 'builds.project_id')
    .select(['projects.id', 'projects.clone_url', 'projects.ssh_private_key', 'projects.forge_id'])
    .select('projects.forge_git_origin')
    .where('builds.id', '=', job.subject_id)
    .executeTakeFirst();
  return project && sourceOf(db, vault, project);
}
