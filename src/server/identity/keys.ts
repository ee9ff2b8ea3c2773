import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK } from 'jose';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type SigningKeyRow } from '../db/schema.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import type { Vault } from '../../shared/lib/vault.ts';

export const algorithm = 'ES256';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** No token lasts longer. */
export const longestTokenMs = hour;
const replacedAfterMs = 90 * day;
/** A key is published before it signs, so that verifiers that cache the keys know it. */
const announcedMs = day;
/** The clocks of servers may differ. */
const leewayMs = 5 * minute;
const checkEveryMs = minute;

export interface SigningKey {
  kid: string;
  key: Awaited<ReturnType<typeof importJWK>>;
}

export interface SigningKeys {
  /** The public keys of all tokens that may be valid, and of those that will be issued next. */
  published(): Promise<JWK[]>;
  current(trx: Transaction): Promise<SigningKey>;
  /** Makes the next key if it is due, and removes keys whose last token has ended. */
  renew(): Promise<void>;
  close(): Promise<void>;
}

export interface SigningKeysParts {
  db: Database;
  vault: Vault;
  now: () => number;
  onError: (error: unknown) => void;
}

function all(queries: Queries): Promise<SigningKeyRow[]> {
  return queries.selectFrom('signing_keys').selectAll().orderBy('id').execute();
}

/** Servers on one database have the same keys: their numbers are consecutive, and the first row with a number stays. */
export async function openSigningKeys({ db, vault, now, onError }: SigningKeysParts): Promise<SigningKeys> {
  const isOver = (successor: SigningKeyRow | undefined): boolean =>
    successor !== undefined && Number(successor.signs_from) + longestTokenMs + leewayMs <= now();

  const renew = async (): Promise<void> => {
    const keys = await all(db.read);
    const last = keys.at(-1);
    const next = last ? await nextAfter(last) : { id: 1n, signsFrom: now() };
    const ended = keys.filter((_, at) => isOver(keys[at + 1]));
    if (!next && ended.length === 0) return;
    const pair = next && (await generateKeyPair(algorithm, { extractable: true }));
    const made = pair && { public: await exportJWK(pair.publicKey), private: await exportJWK(pair.privateKey) };
    await db.transaction(async (trx) => {
      if (next && made) {
        const { id, signsFrom } = next;
        const row = {
          id,
          public_key: JSON.stringify(made.public),
          private_key: await sealIn(trx, vault, JSON.stringify(made.private), placeOf(id)),
          signs_from: BigInt(signsFrom),
        };
        await trx
          .insertInto('signing_keys')
          .values(row)
          .onConflict((known) => known.column('id').doNothing())
          .execute();
      }
      for (const { id } of ended) await trx.deleteFrom('signing_keys').where('id', '=', id).execute();
    });
  };

  const nextAfter = async ({ id, signs_from: from }: SigningKeyRow) => {
    const due = Number(from) + replacedAfterMs;
    return due - announcedMs > now() ? undefined : { id: id + 1n, signsFrom: Math.max(due, now()) };
  };

  await renew();
  const renewing = repeatedly(checkEveryMs, renew, onError);
  return {
    async published() {
      const keys = await all(db.read);
      const valid = keys.filter((_, at) => !isOver(keys[at + 1]));
      return Promise.all(
        valid.map(async ({ public_key: text }) => {
          const key = JSON.parse(text) as JWK;
          return { ...key, kid: await calculateJwkThumbprint(key), use: 'sig', alg: algorithm };
        }),
      );
    },
    async current(trx) {
      const keys = await all(trx);
      const row = keys.findLast(({ signs_from: from }) => Number(from) <= now()) ?? keys[0];
      if (!row) throw new Error('there is no key for tokens of builds');
      const kid = await calculateJwkThumbprint(JSON.parse(row.public_key) as JWK);
      const opened = JSON.parse(vault.open(row.private_key, placeOf(row.id))) as JWK;
      return { kid, key: await importJWK(opened, algorithm) };
    },
    renew,
    close: () => renewing.stop(),
  };
}

function placeOf(id: bigint): string {
  return sealedLocation({ table: 'signing_keys', column: 'private_key' }, id);
}
