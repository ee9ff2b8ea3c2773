import { claimEndingTokens, tellLater, tokensTopic, type EndingToken } from './auth/user-tokens.ts';
import type { Database } from './db/open.ts';
import { mailLink, type Mailer } from './mail/mailer.ts';
import { endingTokens, nextDue, startDueWork } from './queue/due.ts';

export interface TellingParts {
  db: Database;
  mailer: Mailer;
  /** The public address, without a trailing slash. */
  origin: string;
  onError: (error: unknown) => void;
}

const checkEveryMs = 60_000;
const mostAtOnce = 4;
/** After the mail server took no letter. */
const againMs = 60 * 60 * 1000;

/** Sends one e-mail for each token that ends soon. Each server does so, and a token is claimed by one of them. */
export function startTellingOfTokens(parts: TellingParts): { close(): Promise<void> } {
  const { db, onError } = parts;
  return startDueWork<EndingToken>(db, {
    topic: tokensTopic,
    everyMs: checkEveryMs,
    most: mostAtOnce,
    nextAt: () => nextDue(db.read, endingTokens),
    claim: (room) => db.transaction((trx) => claimEndingTokens(trx, room)),
    serve: (token) => tell(parts, token),
    whenSetBack: async () => {}, // these times are ends of tokens, not waits
    onError,
  });
}

async function tell({ db, mailer, origin }: TellingParts, { id, name, expires_at: end, email }: EndingToken) {
  const on = `${new Date(Number(end)).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
  const taken = await mailLink(mailer, {
    to: email,
    link: `${origin}/ui/account/tokens`,
    subject: `Your token “${name}” ends on ${on.slice(0, 10)}`,
    text:
      `Your token “${name}” stops working on ${on}. Programs that use it are refused from then on. ` +
      'Make a new one here, and replace it where it is used:',
  });
  if (!taken) await db.transaction((trx) => tellLater(trx, id, Date.now() + againMs));
}
