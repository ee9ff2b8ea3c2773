import { takeFlow, type Flow } from './flows.ts';
import { useUpLink } from './password-links.ts';
import { usePasskey } from './passkeys.ts';
import { useCode } from './recovery-codes.ts';
import { beginAttempt, forgive, noteRefusal } from './sign-in-throttle.ts';
import { askForSecond, openSession, whyRefused, type Refusal, type SignInServices } from './sign-in.ts';
import { findUserById } from './users.ts';

export interface SecondStep {
  flow: string | undefined;
  /** The passkey's answer as JSON, or blank. */
  answer: string;
  code: string;
  /** The address of this server, as the browser knows it. */
  origin: string;
  address: string;
  session: string | undefined;
}

export type SecondDone = { session: string; returnTo: string } | 'over' | (Refusal & { asks: string });

/** A passkey or a recovery code after the password. A refused one can be tried again with a new challenge. */
export async function takeSecond(services: SignInServices, step: SecondStep): Promise<SecondDone> {
  const { db, ids } = services;
  const flow = await takeFlow(services, step.flow, 'second');
  const user = flow && (await findUserById(db.read, BigInt(flow.userId)));
  if (!flow || !user || whyRefused(user, flow.vouched)) return 'over';
  const { returnTo, vouched, link, challenge } = flow;
  const again = async (refusal: Refusal) => ({ ...refusal, asks: await askForSecond(services, user, flow) });
  // Right passwords must not reset the count, or someone with the password could guess codes.
  const attempt = { email: `second step of ${user.email}`, address: step.address };
  const seconds = await beginAttempt(db, ids, attempt);
  if (seconds > 0) return again({ refused: 'wait', seconds });
  const byPasskey =
    step.answer !== '' &&
    (await usePasskey(db, { answer: step.answer, challenge, address: step.origin }, user.id)) !== undefined;
  const how = byPasskey ? 'passkey' : 'recovery_code';
  const session = await db.transaction(async (trx) => {
    if (!byPasskey && (step.answer !== '' || !(await useCode(trx, user.id, step.code)))) return undefined;
    if (link !== undefined && !(await useUpLink(trx, link))) return undefined;
    await forgive(trx, attempt);
    const { address, session: earlier } = step;
    const byLink = link !== undefined;
    return openSession(services, trx, user, { address, session: earlier, how, vouched, byLink });
  });
  if (session !== undefined) return { session, returnTo };
  await noteRefusal(db, ids, attempt, {
    user,
    actor: null,
    action: 'user.sign_in_refused',
    reason: 'second step',
  });
  return again({ refused: 'wrong' });
}

/** A passkey alone. Undefined if the answer is none of a user who may sign in. */
export async function signInWithPasskey(
  services: SignInServices,
  { flow: token, answer, origin, address, session }: Omit<SecondStep, 'code'>,
): Promise<{ session: string; returnTo: string } | Refusal> {
  const { db } = services;
  const flow: Extract<Flow, { step: 'passkey' }> | undefined = await takeFlow(services, token, 'passkey');
  const passkey = flow && (await usePasskey(db, { answer, challenge: flow.challenge, address: origin }));
  const user = passkey && (await findUserById(db.read, passkey.user_id));
  if (!flow || !user) return { refused: 'wrong' };
  const refused = whyRefused(user);
  if (refused) return { refused };
  const opening = { address, session, how: 'passkey' } as const;
  return {
    session: await db.transaction((trx) => openSession(services, trx, user, opening)),
    returnTo: flow.returnTo,
  };
}
