import { migrate } from '../../server/db/migrate.ts';
import { openDatabase } from '../../server/db/open.ts';
import type { Call } from './call.ts';
import { databaseUrl, makeDataFolder } from './store.ts';

export async function migrateStore({ config }: Call): Promise<void> {
  makeDataFolder(config.data_dir);
  const db = await openDatabase({ url: databaseUrl(config) });
  try {
    const applied = await migrate(db);
    console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'nothing to apply');
  } finally {
    await db.close();
  }
}
