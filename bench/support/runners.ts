import { openDatabase } from '../../src/server/db/open.ts';
import { hashSecret, randomSecret } from '../../src/shared/lib/passwords.ts';
import { openLink } from '../../src/runner/link.ts';
import type { Service } from './servers.ts';

/** Registers this many runners and returns their tokens. */
export async function registerRunners(service: Service, many: number): Promise<string[]> {
  const tokens = Array.from({ length: many }, () => randomSecret('hrr'));
  const db = await openDatabase({ url: service.databaseUrl });
  try {
    const rows = tokens.map((token, at) => ({
      id: BigInt(at + 1),
      name: `runner ${at}`,
      token_hash: hashSecret(token),
      created_at: BigInt(Date.now()),
      revoked_at: null,
      draining: 0,
    }));
    await db.transaction((trx) => trx.insertInto('runners').values(rows).execute());
  } finally {
    await db.close();
  }
  return tokens;
}

/** A runner with the real protocol, which runs nothing: the benchmark finishes its orders at once. */
export type ScriptedRunner = ReturnType<typeof openLink>;

export async function openRunner(service: Service): Promise<ScriptedRunner> {
  const [token = ''] = await registerRunners(service, 1);
  return openLink({ url: service.url, token });
}
