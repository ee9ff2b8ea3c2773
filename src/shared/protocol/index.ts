import type { Answer, CallName, Message } from './calls.ts';
export * from './versions.ts';
export * from './calls.ts';
export * from './messages.ts';
export * from './orders.ts';
export * from './outcomes.ts';
export * from './polls.ts';
export * from './tests.ts';
export * from './shells.ts';
export * from './schema.ts';

/**
 * The protocol between the server and a runner.
 *
 * A runner opens one WebSocket to its server, with its token, and says with it which version of the protocol it speaks, its
 * tags, and how many slots for builds it has. Over it go calls of the runner, each with a number, and their answers
 * (calls.ts, messages.ts). An answer may take as long as it takes, and answers come in any order. A connection that breaks is opened
 * again, to whichever server, and calls without an answer are called again: the repetition of a call changes nothing. Both
 * sides notice when the other is silent for too long.
 *
 * A runner has a number of executors: some for builds and what else takes long, some for fetches and connection checks,
 * so that these never wait behind builds (domain/runner-slots.ts). One that has nothing to do calls *next*, which says that it is
 * free, and for which *slot*; the answer is an order. It does the work, sends its output as *log* chunks, and reports the
 * outcome with *finish*. While there is work, the runner calls *extend* again and again, which names its claims and shows
 * the server that it is alive. It is answered at once when one of these claims, or one that the runner got since, is to be
 * dropped.
 *
 * An order comes with a claim: the right to do this piece of work, until it is finished or lost. The runner chooses the
 * claim's name and sends it with *next*, so that a call whose answer was lost can be repeated: the server sends the order
 * that the name was given to again, and no order counts as under way that no runner has. A claim expires when it is not
 * extended for a while (`claimSeconds`). Then another executor gets the work, and later messages under the old claim are
 * answered with `gone`: the first executor stops, and its work does not count.
 *
 * When the server is unreachable, the runner goes on. It keeps the log on its disk within a limit, retries until the
 * server answers, and then sends the log and the outcome. A server that restarts gives every claim time to be extended
 * before it lets any expire.
 *
 * A log chunk carries the offset of its first byte. A chunk that overlaps stored bytes is stored from the end of the
 * overlap on. A chunk that leaves a gap is refused with the expected offset. So a repeated chunk changes nothing and no
 * byte is missing.
 *
 * A log has a limit, which comes with the order: at that length the runner ends the work, and reports it as cut short.
 * The server stores nothing beyond the limit whatever a runner sends, and nothing when its disk is full: it answers
 * with the reason and the stored size, and the runner ends the work likewise. The server adds a line to a log that was
 * cut.
 *
 * Data that is too large for a message is a blob on the server, named by the SHA-256 of its bytes: source archives, and
 * the software compiled from them. Blobs go in HTTP requests of their own. A runner *reads* them from any offset on, so a
 * broken transfer continues where it stopped. It *stores* a compiled result under its claim before it reports the outcome,
 * which names the result. That is one blob for each claim: another takes the place of the one before. What is larger than
 * the order allows is answered `refused`, and what no outcome names is removed. Where the server keeps its blobs elsewhere,
 * a runner that says that it follows (`headrace-follows: yes`) may be answered with 307 and an address that opens this blob
 * for some minutes. It fetches the bytes there, without its token. Where it cannot get there, it asks the server again,
 * without saying so.
 *
 * The files that a suite keeps of its build are *kept* before the outcome is reported: under its claim, many files go in
 * one request, as frames (domain/file-frames.ts, the letter F with size and path). The server stores them and notes them with the
 * build. A file that is there already under its path is passed over, so a request that broke off can be repeated. The
 * order says how much may be kept, and the server holds to that too: it answers `refused` with the reason, and what it
 * took before stays. The files of a build that is lost are removed.
 *
 * Where the server cannot store files, because its store of blobs is away, it answers 503 with `blobsAwayField` as the field
 * at fault. Then files and cache of a build stay on the runner, which reports the outcome at once and says that they wait
 * (`uploads`). The claim is over with it, but for this: the runner may still *keep* files and *store* a cache under it, until
 * it says with *uploaded* that everything is there, or what is lost, and why. The answer to any of these is `gone` when the
 * build is gone or the wait was given up.
 *
 * A suite's order may name reports. The runner reads the tests in them, and sends these under its claim, some at a time
 * and each batch with the position of its first test, before it reports the outcome. So a repeated batch changes nothing,
 * as with the log. The last one says that it is the last; only then do the tests count.
 *
 * A claim gives access to what its order needs and nothing else, while it is held: the blobs that the order names, the
 * log of its record, and the *access* to the project's repository, which a suite's order leaves out because most runners have the commit
 * already. Likewise the credentials for the *registry* of its image. A runner whose token is revoked or replaced has lost
 * its claims at once; its connection is ended within a second, and it is answered 401 when it comes again. A malformed
 * message is refused with the reason; repeating it would not help.
 *
 * A runner sends its tags, with commas between them, and gets only work whose tags it has. It says how many slots for
 * builds it has, so that work which waits can say why.
 *
 * A runner that does one job and ends waits for a while only, and says with *next* how long it still waits. What starts
 * such runners (`headrace scale`) asks for the *demand*, with the token and the tags that they have.
 *
 * A runner that is to be drained gets no more orders. When it has none any more, its calls for the next one are
 * answered with `end`: it ends, and when it comes again it is told so again.
 *
 * A runner keeps fetched data for the next time. Every few seconds it asks which of the projects it has data of are
 * *gone*, and removes that data.
 *
 * A suite's cache is restored from a blob that its order names; a runner that has its tree from earlier mounts it at once.
 * What a build leaves instead is stored under the claim like a compiled result, and the outcome says so. Now and then a
 * runner asks which of the trees that it keeps are *stale*, because no cache has them any more.
 *
 * Beside its executors a runner polls repositories. Polls are short and many, so they are no jobs of the queue: the call
 * *polls* is answered with all that are due, as many as the runner has room for, and it reports what it found with
 * *polled*, many at a time. A poll belongs to the runner for a while; without a report in that time it is handed to
 * another one.
 *
 * An order of a suite may ask for its files to be kept if it fails. The runner keeps them under a name of its own, and says
 * with the outcome who keeps them (the name of its folder), that name, and the key with which it has encrypted what it wrote
 * down about the build, so that no secret lies open on its disk. While it keeps files, it calls for *shells* in them, which
 * is answered when somebody opens one. A shell is no work of the queue: it has no claim. Its bytes go through
 * the server in both directions (domain/shell-frames.ts): the runner asks for the *input* from a position on, which also says
 * that it has everything before, and sends *output* with its position, until the answer says that the person's side has it.
 *
 * Files of a build are kept in the same way where other suites begin with them. A runner that keeps such files says so with
 * *next* (`location`), and is given work that begins with them before others are. Where another runner is to have them, the
 * one that has them is ordered to pack them. Now and then it asks which of those that it has *kept* are gone or still needed.
 *
 * An outcome says what became of the work. That a command failed is an outcome; that the runner could not do its part
 * is one too, of kind `lost`, and leads to another try. Identifiers are texts here, because JSON has no 64 bits.
 */

/** Sent with a read by runners that follow an answer to another address. */
export const followsHeader = 'headrace-follows';

/** In the body of a 503: it is the store of the blobs that is away, and not the server. */
export const blobsAwayField = 'blobs';

/** A claim that is not extended for this long has expired. */
export const claimSeconds = 15;

/** How long the answer about claims takes where there is nothing to say. */
export const holdSeconds = 5;

/** There is nothing more for this runner: it is to end. */
export class DrainedError extends Error {
  constructor() {
    super('the runner was drained: it has nothing more to do');
  }
}

/** The runner's side of the protocol. */
export type Link = Omit<LinkCalls, 'demand'> & BlobLink;

export type LinkCalls = {
  [Name in CallName]: (message: Message<Name>, signal: AbortSignal) => Promise<Answer<Name>>;
};

export interface BlobLink {
  /** A blob from an offset on, as a stream; undefined when the server has no such blob. */
  read(digest: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  store(claim: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Stored>;
  /** Keeps files of the build; `content` is a stream of frames. */
  keep(claim: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Kept>;
}

/** The answer to files of a build: all are kept, they are not wanted any more, or there is no room for more. */
export type Kept = { kept: true } | { gone: true } | { refused: 'disk_full' | 'too_large' };

/** The answer to a stored blob: its digest, not wanted any more, or no room, or more than the order allows. */
export type Stored = { digest: string } | { gone: true } | { refused: 'disk_full' | 'too_large' };
