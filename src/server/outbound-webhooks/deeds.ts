import { longestCommandMs, most } from '../../shared/domain/bounds.ts';
import type { ProviderName } from '../../shared/domain/forge-providers.ts';
import { ForgeError, type Forge } from '../forges/forge.ts';
import { openForgeAt } from '../forges/index.ts';
import { askAbout, obeyOnce } from '../forges/obey.ts';
import { annotationsOf } from '../lifecycle/build-annotations.ts';
import type { AnswerDeed, CommandDeed, Deed, DeedReport, NotesDeed } from '../lifecycle/forge-deeds.ts';
import { findNoted, isSuperseded, keepTold, toldNotes } from '../lifecycle/pull-request-notes.ts';
import type { Observers } from '../lifecycle/write-context.ts';
import type { Outgoing } from '../lifecycle/webhook-deliveries.ts';
import type { Database } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { BusyThreadError } from '../../shared/lib/worker-thread.ts';
import type { SearchParts } from '../streams/search.ts';
import type { CallResult, CallRules } from './http-call.ts';
import { asCode } from './markdown.ts';
import { checkRunOf, commentOf, digestOf, nameOf, notesMark, type Notes } from './notes.ts';

export interface DeedParts extends Omit<SearchParts, 'db'> {
  db: Database;
  ids: IdSource;
  observers: Observers;
  /** The address of the service. */
  origin: string;
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
  const doing = { command, answer, notes }[deed.kind] as (parts: DeedParts, at: At, deed: Deed) => Promise<Result>;
  const result = await doing(parts, at, deed).catch(outcomeOf);
  return { answer: '', error: '', ...result, durationMs: performance.now() - startedAt };
}

type Result = Partial<CallResult> & Pick<CallResult, 'status' | 'verdict'>;

/** The forge's own words, as of a status. A refusal would be repeated, and other deliveries wait behind it. */
function outcomeOf(error: unknown): Result {
  if (error instanceof BusyThreadError) return { status: null, error: 'too many searches', verdict: 'not_taken' };
  if (!(error instanceof ForgeError)) throw error;
  const { kind, status, message, retryAfterMs } = error;
  const isLater = kind === 'unavailable' || kind === 'refused' || status === null;
  return { status, error: message, retryAfterMs, verdict: isLater ? 'not_taken' : 'refused' };
}

const done: Result = { status: 200, verdict: 'taken' };

const nothing = (why: string): string => `Nothing was done: ${why}`;

/** No answer is no: a command is never tried again. */
async function command(parts: DeedParts, { client, delivery }: At, deed: CommandDeed): Promise<Result> {
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

async function answer(_: DeedParts, at: At, { pull, comment, command: { line }, why }: AnswerDeed): Promise<Result> {
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

/** The comment or check run of a pull request, with what its newest builds found by now. */
async function notes(parts: DeedParts, at: At, { pull }: NotesDeed): Promise<Result> {
  const { client, delivery } = at;
  const { notification_id: target, project_id: projectId, repository } = delivery;
  const { read } = parts.db;
  const number = BigInt(pull);
  if (await isSuperseded(read, delivery, number)) return done;
  const noted = await findNoted(read, projectId, number);
  if (!noted) return done;
  const { sha, request } = noted;
  const found: Notes['found'] = [];
  const until = performance.now() + searchMs;
  let isCut = false;
  for (const build of noted.builds) {
    const milliseconds = until - performance.now();
    isCut = milliseconds <= 0;
    if (isCut) break;
    const all = await annotationsOf({ ...parts, db: read }, build, { account: projectId, milliseconds });
    const placed = all.filter(({ file, line }) => file !== null && line !== null).slice(0, most.notesOfBuild);
    found.push(...placed.map((annotation) => ({ suite: nameOf(build), annotation })));
  }
  const isCheck = client.addCheckRun !== undefined;
  const before = await toldNotes(read, target, number);
  // With a token of another kind, the forge has the other form.
  const told = before?.remote_id.startsWith(checkRun) === isCheck ? before : undefined;
  // Before the end, nothing yet is no reason to call what was told wrong.
  const isKnown = told !== undefined && (!isCheck || told.sha === sha);
  if (found.length === 0 && (isCut || !isKnown || !request.isOver)) return done;
  const address = `${parts.origin}/ui/projects/${projectId}/requests/${request.id}`;
  const content = { sha, address, found, isCut };
  const what = isCheck ? checkRunOf(content) : commentOf(content);
  const hash = digestOf(what);
  if (told?.text_hash === hash) return done;
  const remote =
    typeof what === 'string'
      ? await comment(at, pull, what, told?.remote_id)
      : `${checkRun}${await client.addCheckRun?.(repository, what)}`;
  await parts.db.transaction((trx) => keepTold(trx, target, number, { remote_id: remote, sha, text_hash: hash }));
  return done;
}

/** Before the ID of a check run. A comment has no such part. */
const checkRun = 'check run ';

/** For all logs of a pull request. */
const searchMs = 5000;

/** Writes the one comment anew if somebody deleted it. */
async function comment(at: At, pull: string, text: string, id: string | undefined): Promise<string> {
  const { client, delivery } = at;
  const known = id ?? (await findOwn(at, pull, notesMark));
  if (known !== undefined) {
    const isChanged = await client.changeComment(delivery.repository, pull, known, text).then(
      () => true,
      (error: unknown) => {
        if (error instanceof ForgeError && error.kind === 'not_found') return false;
        throw error;
      },
    );
    if (isChanged) return known;
  }
  return client.addComment(delivery.repository, pull, text);
}
