import { entriesSince, entryView } from '../auth/audit.ts';
import { exactJson } from '../lib/exact-json.ts';
import { UsageError, type Command } from './commands.ts';
import { openMigrated } from './store.ts';

export const auditCommand: Command = {
  usage: 'admin audit [--since T]',
  about: 'Print the audit log, oldest first, as one JSON object per line; T is a date, or a date and time (ISO 8601)',
  async run({ config, flags: { since } }) {
    const from = since === undefined ? 0 : Date.parse(since);
    if (Number.isNaN(from)) throw new UsageError(`--since ${since} is no date such as 2026-11-15 or 2026-11-15T08:00Z`);
    const db = await openMigrated(config, (error) => console.error(error));
    try {
      for await (const entry of entriesSince(db.read, BigInt(from))) console.log(exactJson(entryView(entry)));
    } finally {
      await db.close();
    }
  },
};
