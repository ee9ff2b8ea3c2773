import type { Database } from '../db/open.ts';
import type { IdentityRow } from '../db/schema.ts';
import {
  byIssuer,
  claimDue,
  identitiesTopic,
  isAlive,
  keepLooking,
  lookEveryMs,
  lookLater,
  noteSilence,
  refreshTokenOf,
  shutOut,
  vouchFor,
} from '../auth/identities.ts';
import { identities, makeStrandedDue, nextDue, startDueWork } from '../queue/due.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { IssuerError, type Issuer } from './issuer.ts';
import { isOperatorBy, whyNoLonger } from './judge.ts';

export interface LookParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  issuer: Issuer;
  onError: (error: unknown) => void;
}

const checkEveryMs = 5_000;
const mostAtOnce = 8;

/** Asks the issuer again about each linked user whose sessions, keys, tokens or passkeys could be used. */
export function startLooks(parts: LookParts): { close(): Promise<void> } {
  const { db, issuer, onError } = parts;
  return startDueWork<IdentityRow>(db, {
    topic: identitiesTopic,
    everyMs: checkEveryMs,
    most: mostAtOnce,
    nextAt: () => nextDue(db.read, identities),
    claim: (room) => db.transaction((trx) => claimDue(trx, issuer.settings.issuer, room)),
    serve: (identity) => look(parts, identity),
    whenSetBack: () => makeStrandedDue(db, identities, lookEveryMs),
    onError,
  });
}

async function look({ db, ids, vault, issuer }: LookParts, identity: IdentityRow): Promise<void> {
  const refreshToken = refreshTokenOf(vault, identity);
  if (refreshToken === undefined) return;
  if (!(await isAlive(db.read, identity.user_id))) return db.transaction((trx) => lookLater(trx, identity));
  try {
    const vouched = await issuer.lookAgain(refreshToken, identity.subject);
    const why = whyNoLonger(issuer.settings, vouched);
    const isOperator = isOperatorBy(issuer.settings, vouched);
    await db.transaction(async (trx) => {
      if (why === undefined) return vouchFor({ ids, vault }, trx, identity, { vouched, isOperator, by: byIssuer });
      await keepLooking({ vault }, trx, identity, vouched.refreshToken);
      await shutOut({ ids }, trx, identity, why);
    });
  } catch (error) {
    if (!(error instanceof IssuerError)) throw error;
    await db.transaction((trx) =>
      error.trouble === 'refused' ? shutOut({ ids }, trx, identity, 'gone') : noteSilence({ ids }, trx, identity),
    );
  }
}
