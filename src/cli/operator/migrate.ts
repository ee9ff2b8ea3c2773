import { migrate } from '../../server/db/migrate.ts';
import { openDatabase } from '../../server/db/open.ts';
import { tell, type Call } from './call.ts';
import { databaseUrl, makeDataFolder } from './store.ts';

export async function migrateStore(call: Call): Promise<void> {
  const { config } = call;
  makeDataFolder(config.data_dir);
  const db = await openDatabase({ url: databaseUrl(config) });
  try {
    const applied = await migrate(db);
    tell(call, { applied }, applied.length > 0 ? `applied ${applied.join(', ')}` : 'nothing to apply');
  } finally {
    await db.close();
  }
}
