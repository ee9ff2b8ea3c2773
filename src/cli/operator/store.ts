import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import type { CallDeps } from '../../server/api/call.ts';
import { forgeOpener } from '../../server/forges/index.ts';
import { publicAddressFilter } from '../../shared/lib/address-filter.ts';
import { makeOwnFolder } from '../../shared/lib/own-subfolder.ts';
import { createResolve } from '../../shared/lib/resolve.ts';
import { createTlsTrust } from '../../shared/lib/tls-trust.ts';
import { diskReserveBytes, readBlobLocation, type BlobLocation, type Config } from '../../shared/config.ts';
import { openFileBlobs, type Blobs } from '../../server/db/blobs.ts';
import { openVaultOf, proveMasterKey } from '../../server/db/canary.ts';
import { createShellRelay } from '../../server/streams/shell-relay.ts';
import { createSubscriptions } from '../../server/db/subscriptions.ts';
import { artifactAddresses } from '../../server/auth/artifact-addresses.ts';
import { configuredMailer } from '../../server/mail/mailer.ts';
import { migrate } from '../../server/db/migrate.ts';
import { leaseNode } from '../../server/db/node-lease.ts';
import { openDatabase, type Database } from '../../server/db/open.ts';
import { keepReserve, type DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { createObservers } from '../../server/lifecycle/endings.ts';
import { closeListingThread } from '../../server/triggers/compare-listings.ts';
import { closeRulesThread } from '../../server/lifecycle/evaluate-rules.ts';
import { closeImportThread } from '../../server/triggers/import-thread.ts';
import { closeDiffThread } from '../../server/briefs/log-diff.ts';
import { closeBriefThread } from '../../server/briefs/line-hashes.ts';
import { closeSummaryThread } from '../../server/outputs/show-summary.ts';
import { unpackLimitsOf } from '../../server/limits.ts';
import { createSearchThread } from '../../server/streams/search.ts';

export interface Store extends CallDeps {
  /** Writes a small value. Rejects if that is impossible. */
  proveWritable(): Promise<void>;
  /** Rejects if the master key no longer opens the database's sealed values. */
  proveReadable(): Promise<void>;
  close(): Promise<void>;
}

/** Creates missing parts, such as data folder and master key. `note` gets messages about remote blobs. */
export async function openStore(
  config: Config,
  onTrouble: (error: unknown) => void,
  note: (message: string) => void = () => {},
): Promise<Store> {
  const db = await openMigrated(config, onTrouble);
  try {
    const vault = await openVaultOf(db, masterKeyFile(config));
    const location = blobLocation(config);
    const folders = 'folder' in location ? [config.data_dir, location.folder] : [config.data_dir];
    const disk = keepReserve({ folders, bytes: diskReserveBytes(config) });
    const blobs = await openBlobs(location, disk, note);
    const lease = await leaseNode(db, onTrouble);
    const subscriptions = createSubscriptions(db);
    const relay = createShellRelay(db, vault);
    const searches = createSearchThread();
    // While the database was unreachable the lease may have expired. Without it no record can be created.
    const stopListening = db.listen(
      () => {},
      () => void lease.renew().catch(onTrouble),
    );
    return {
      db,
      vault,
      ids: lease.ids,
      observers: createObservers(),
      subscriptions,
      relay,
      blobs,
      disk,
      searches,
      buildTimeout: config.build_timeout,
      imageBuilds: config.image_builds === 'on',
      publicProjects: config.public_projects === 'on',
      shellHours: config.shell_hours,
      filesHours: config.files_hours,
      archiveBytes: unpackLimitsOf(config).bytes,
      assembling: new Map(),
      mailer: configuredMailer(config),
      artifactAddresses:
        config.artifact_url === undefined ? undefined : artifactAddresses({ url: config.artifact_url, vault }),
      openForge: forgeOpener({
        mayCall: publicAddressFilter(config.webhook_allow),
        resolve: createResolve(),
        trust: createTlsTrust(config.trust_file),
        answerWithin: 10_000,
        signal: new AbortController().signal,
      }),
      proveWritable: () => lease.renew(),
      proveReadable: () => proveMasterKey(db, vault),
      async close() {
        stopListening();
        relay.close();
        subscriptions.close();
        await searches.close();
        await closeRulesThread(db);
        await closeSummaryThread(db);
        await closeImportThread(db);
        await closeBriefThread(db);
        await closeDiffThread(db);
        await closeListingThread(db);
        await lease.close();
        await blobs.close();
        await db.close();
      },
    };
  } catch (error) {
    await db.close();
    throw error;
  }
}

export async function openMigrated(config: Config, onTrouble: (error: unknown) => void): Promise<Database> {
  makeDataFolder(config.data_dir);
  const db = await openDatabase({ url: databaseUrl(config), onLost: onTrouble });
  try {
    await migrate(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return db;
}

export function databaseUrl(config: Config): string {
  return config.database_url ?? join(config.data_dir, 'headrace.db');
}

export function blobLocation(config: Config): BlobLocation {
  return readBlobLocation(config.blob_url ?? join(config.data_dir, 'blobs'), 'blob_url');
}

export async function openBlobs(
  location: BlobLocation,
  disk: Pick<DiskReserve, 'take' | 'room'>,
  note: (message: string) => void = () => {},
): Promise<Blobs> {
  if ('folder' in location) return openFileBlobs(location.folder, disk);
  if (location.endpoint?.startsWith('http:'))
    note(`the blobs travel to and from ${new URL(location.endpoint).host} unencrypted, because its endpoint is http:`);
  const { openS3Blobs } = await import('../../server/db/s3/blobs.ts'); // without S3 its client is not loaded
  return openS3Blobs(location, {
    onChange: (failure) =>
      note(failure === undefined ? 'the blobs can be reached again' : `the blobs cannot be reached: ${failure}`),
  });
}

export function masterKeyFile(config: Config): string {
  return config.master_key_file ?? join(config.data_dir, 'master.key');
}

/** Other users of the machine get no access, even if the folder existed before. */
export function makeDataFolder(folder: string): void {
  makeOwnFolder(folder);
  chmodSync(folder, 0o700);
}
