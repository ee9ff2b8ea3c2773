import { migrate } from '../db/migrate.ts';
import { openDatabase } from '../db/open.ts';
import type { Command } from './commands.ts';
import { databaseUrl, makeDataFolder } from './store.ts';

export const migrateCommand: Command = {
  usage: 'migrate',
  about: 'Migrate the database to this version; a server does so itself when it starts',
  async run({ config }) {
    makeDataFolder(config.data_dir);
    const db = await openDatabase({ url: databaseUrl(config) });
    try {
      const applied = await migrate(db);
      console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'nothing to apply');
    } finally {
      await db.close();
    }
  },
};
