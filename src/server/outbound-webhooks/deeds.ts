import { longestCommandMs } from '../../shared/domain/bounds.ts';
import type { ProviderName } from '../../shared/domain/forge-providers.ts';
import { ForgeError, type Forge } from '../forges/forge.ts';
import { openForgeAt } from '../forges/index.ts';
import { askAbout, obeyOnce } from '../forges/obey.ts';
import type { AnswerDeed, CommandDeed, DeedReport } from '../lifecycle/forge-deeds.ts';
import type { Observers } from '../lifecycle/write-context.ts';
import type { Outgoing } from '../lifecycle/webhook-deliveries.ts';
import type { Database } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { CallResult, CallRules } from './http-call.ts';
import { asCode } from './markdown.ts';

export interface DeedParts {
  db: Database;
  ids: IdSource;
  observers: Observers;
}

/** The forge, and the repository there. */
export interface DeedTarget {
  name: ProviderName;
  delivery: Outgoing;
  token: string;
}

interface At {
  client: Forge;
  delivery: Outgoing;
}

/** A delivery may take several calls. Together they take no longer than one. */
export async function doDeed(
  parts: DeedParts,
  { name, delivery, token }: DeedTarget,
  { deed }: DeedReport,
  rules: CallRules,
): Promise<CallResult> {
  const startedAt = performance.now();
  const signal = AbortSignal.any([rules.signal, AbortSignal.timeout(rules.answerWithin)]);
  const { url: api, forge_url: url } = delivery;
  const at = { client: openForgeAt(name, { url, token, api }, { ...rules, signal }), delivery };
  const result = await (deed.kind === 'command' ? command(parts, at, deed) : answer(at, deed)).catch(outcomeOf);
  return { answer: '', error: '', ...result, durationMs: performance.now() - startedAt };
}

type Result = Partial<CallResult> & Pick<CallResult, 'status' | 'verdict'>;

/** The forge's own words, as of a status. A refusal would be repeated, and other deliveries wait behind it. */
function outcomeOf(error: unknown): Result {
  if (!(error instanceof ForgeError)) throw error;
  const { kind, status, message, retryAfterMs } = error;
  const isLater = ['unavailable', 'refused', 'not_a_forge'].includes(kind);
  return { status, error: message, retryAfterMs, verdict: isLater ? 'not_taken' : 'refused' };
}

const done: Result = { status: 200, verdict: 'taken' };

/** No answer is no: a command is never tried again. */
async function command(parts: DeedParts, { client, delivery }: At, deed: CommandDeed): Promise<Result> {
  const nothing = (why: string): string => `Nothing was done: ${why}`;
  if (Date.now() - Number(delivery.created_at) > longestCommandMs)
    return { status: null, error: nothing('the command waited too long.'), verdict: 'refused' };
  const asked = await askAbout(client, delivery.repository, deed).catch(outcomeOf);
  if (!('standing' in asked)) return { ...asked, error: nothing(asked.error ?? ''), verdict: 'refused' };
  if (asked.standing === 'stranger') {
    const why = `the forge does not know ${deed.author.login} in the repository.`;
    return { status: 200, error: nothing(why), verdict: 'refused' };
  }
  const why = await obeyOnce(parts, { deliveryId: delivery.id, projectId: delivery.project_id }, deed, asked);
  return { ...done, ...(why !== undefined && why !== '' && { error: nothing(why) }) };
}

/** Clocks may differ by as much. */
const skewMs = 5 * 60_000;

/** A comment of the connection's own account with the text, since the delivery was created. */
async function findOwn({ client, delivery }: At, pull: string, text: string): Promise<string | undefined> {
  const login = delivery.forge_login.toLowerCase();
  const since = new Date(Number(delivery.created_at) - skewMs);
  const found = await client.comments(delivery.repository, pull, since);
  const isOwn = (authors: string[]): boolean => authors.some((author) => author.toLowerCase() === login);
  return found.find((one) => isOwn(one.authors) && one.text.includes(text))?.id;
}

async function answer(at: At, { pull, comment, command: { line }, why }: AnswerDeed): Promise<Result> {
  const { client, delivery } = at;
  if (why === '' && client.react) {
    await client.react(delivery.repository, pull, comment);
    return done;
  }
  // The address of a reference that nothing uses: no page shows it.
  const mark = `[//]: # (headrace ${comment})`;
  // An earlier try may have written it without a response.
  if ((await findOwn(at, pull, mark)) !== undefined) return done;
  const text = why === '' ? `Headrace obeyed ${asCode(line)}.` : `Headrace did not obey ${asCode(line)}. ${why}`;
  await client.addComment(delivery.repository, pull, `${text}\n\n${mark}`);
  return done;
}
