import type { AuditEntryRow } from '../../src/server/db/schema.ts';
import { entriesSince, entryView } from '../../src/server/auth/audit.ts';
import type { Service } from './service.ts';

export type Entry = ReturnType<typeof entryView>;

/** The new entries of the audit log since a moment in a test. */
export class AuditWatch {
  readonly #service: Service;
  #last = -1n;

  private constructor(service: Service) {
    this.#service = service;
  }

  static async begin(service: Service): Promise<AuditWatch> {
    const watch = new AuditWatch(service);
    await watch.news();
    return watch;
  }

  /** The entries since the last call, oldest first. */
  async news(): Promise<Entry[]> {
    const entries = (await allEntries(this.#service)).filter(({ id }) => id > this.#last);
    this.#last = entries.at(-1)?.id ?? this.#last;
    return entries.map(entryView);
  }

  async actions(): Promise<string[]> {
    return (await this.news()).map(({ action }) => action);
  }
}

export async function allEntries({ store }: Service): Promise<AuditEntryRow[]> {
  return Array.fromAsync(entriesSince(store.db.read, 0n));
}
