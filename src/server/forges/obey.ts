import { recordAudit } from '../auth/audit.ts';
import type { Transaction } from '../db/open.ts';
import { obey } from '../lifecycle/comment-commands.ts';
import { answerDeed, type CommandDeed } from '../lifecycle/forge-deeds.ts';
import { applyEffects, tellForge } from '../lifecycle/pending-effects.ts';
import { markDelivered } from '../lifecycle/webhook-deliveries.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { Forge, Standing } from './forge.ts';

interface Asked {
  standing: Standing;
  head: string | undefined;
}

/** Asks the forge what the author may do now. Throws a ForgeError without a clear answer. */
export async function askAbout(client: Forge, repository: string, deed: CommandDeed): Promise<Asked> {
  const { author, command, pull } = deed;
  const standing = await client.standing(repository, author);
  const needsHead = standing === 'pushes' && (command.kind === 'approve' || command.kind === 'deploy');
  return { standing, head: needsHead ? await client.head(repository, pull) : undefined };
}

type Parts = Omit<WriteContext, 'trx'>;

/**
 * Obeys a command, and plans the answer to it, in the transaction that ends its delivery. So it is obeyed once, even if
 * two servers try. Undefined if another server was first.
 */
export async function obeyOnce(
  { db, ...parts }: Parts,
  { deliveryId, projectId }: { deliveryId: bigint; projectId: bigint },
  deed: CommandDeed,
  { standing, head }: Asked,
): Promise<string | undefined> {
  const attempt = async (trx: Transaction): Promise<string> => {
    const context = { db, trx, ...parts };
    const { pull, command, author } = deed;
    const may = standing === 'pushes';
    const asked = { projectId, pull: BigInt(pull), command, head };
    const obeyed = may
      ? await obey(context, asked)
      : { why: 'Only users who may push to the repository give commands.' };
    const why = 'why' in obeyed ? obeyed.why : '';
    if (!('why' in obeyed) && obeyed.action !== '') {
      const subject = { id: obeyed.subjectId, name: '' };
      const details = { ...obeyed.details, login: author.login, pull_request: pull };
      const by = { actor: null, via: 'forge', application: null, address: null } as const;
      await recordAudit(trx, parts.ids, by, { action: obeyed.action, subject, projectId, details });
    }
    tellForge(context, projectId, answerDeed(deed, why));
    await applyEffects(context);
    if (!(await markDelivered(trx, deliveryId))) throw new SecondError();
    return why;
  };
  return db.transaction(attempt).catch((error: unknown) => {
    if (error instanceof SecondError) return undefined;
    throw error;
  });
}

class SecondError extends Error {}
