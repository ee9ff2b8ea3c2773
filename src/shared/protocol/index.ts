import type { ShellSocket } from '../domain/shell-stream.ts';
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
 * **Connection.** A runner opens one WebSocket with its token, and sends its protocol version, tags and slots for
 * builds. It makes numbered calls over it (calls.ts, messages.ts). Answers may take long and come in any order. A
 * broken connection is reopened, to any server, and unanswered calls are repeated, which changes nothing. Both sides
 * notice if the other is silent for too long. A revoked or replaced token loses its claims at once and its connection
 * within a second. The next one gets 401. A malformed message is refused with the reason.
 *
 * **Work.** A free slot calls *next* and gets an order. Slots for fetches and connection checks are separate, so these
 * never wait behind builds (domain/runner-slots.ts). A runner gets only work whose tags it has. It sends output as
 * *log* chunks and the outcome with *finish*. Meanwhile it calls *extend* with its claims. That is answered at once if
 * a claim is to be dropped.
 *
 * **Claims.** An order comes with a claim: the right to do this work until it is finished or lost. The runner chooses
 * the claim's name and sends it with *next*. So if the answer is lost, the repeated call gets the same order. A claim
 * that is not extended for `claimSeconds` expires, and another executor gets the work. Messages under the old claim
 * then get `gone`: the first executor stops, and its work does not count. After a restart, a server first lets every
 * claim be extended. If the server is unreachable, the runner continues: it stores a limited log on its disk and retries.
 *
 * **Logs.** A chunk has the offset of its first byte. An overlap is skipped, and a gap is refused with the expected
 * offset. So a repeated chunk changes nothing and no byte is missing. At the order's limit the runner ends the work and
 * reports it as cut short. The server stores nothing beyond the limit, or if its disk is full. It answers with the
 * reason and the stored size, and marks a cut log with a line.
 *
 * **Blobs.** Larger data are blobs named by the SHA-256 of their bytes, in HTTP requests of their own: source archives
 * and compiled dependencies. A runner *reads* from any offset, so broken transfers resume. It *stores* a result under
 * its claim before the outcome that names it. A claim has one blob: a new one replaces it. A blob over the order's
 * limit is `refused`, and one that no outcome names is removed. A runner that sends `headrace-follows: yes` may get 307
 * with an address that opens this blob for some minutes. It fetches there without its token. If that fails, it asks the
 * server again without the header.
 *
 * **Artifacts.** Before the outcome, a suite's files are *kept* under the claim. One request has many, as frames
 * (domain/file-frames.ts, the letter F with size and path). A file that exists already under its path is skipped, so a
 * broken request can be repeated. The order limits the amount, and the server enforces it: it answers `refused` with
 * the reason, and keeps what it took. Files of a lost build are removed.
 *
 * **Blob storage unreachable.** The server answers 503 with `blobsAwayField` as the field. Files and cache then stay on
 * the runner, which reports the outcome at once with `uploads`. That ends the claim, but the runner may still send
 * and *store* under it. At last *uploaded* reports that everything arrived, or the loss and its reason. The answer is
 * `gone` if the build is gone or the wait was given up.
 *
 * **Tests.** An order may name reports. The runner sends their tests under its claim before the outcome, in batches
 * with the position of the first test, so repetition changes nothing. They count only after the batch that is marked as
 * the last.
 *
 * **Summary.** If a build wrote a summary, the runner sends it masked and whole, in one *summary* before the outcome.
 *
 * **Access.** A held claim opens only what its order needs: its blobs, its log, *access* to the repository, and the
 * image's *registry* credentials. Orders omit repository access, because most runners have the commit already.
 *
 * **Ending.** A runner that does one job and ends sends with *next* how long it still waits. A launcher of such runners
 * (`headrace scale`) calls *demand* with their token and tags. A draining runner gets no more orders. Once it has none
 * left, *next* is answered with `end`, also after it reconnects.
 *
 * **Retained data.** A runner asks every few seconds which of its projects are *gone*, and removes their data. An order
 * names the blob of a suite's cache. A runner that already has the tree mounts it. A new cache is stored like a
 * compiled result and named in the outcome. Now and then a runner asks which of its trees are *stale*.
 *
 * **Polls.** They are short and numerous, so they are not jobs. *polls* is answered with all that are due, up to the
 * runner's room, and *polled* reports many at once. Without a report in time, a poll goes to another runner.
 *
 * **Kept files.** An order may have a failed build's files kept, or files for later suites. The outcome has the
 * runner's folder, a name, and a key. The key encrypts the runner's notes about the build, so no secret is readable on
 * its disk. A runner names its folder in *next* (`location`), and first gets work that begins with its files. For
 * another runner it is ordered to pack them. Now and then it asks which *kept* files are gone or still needed.
 *
 * **Points.** An order may have `resume`. Then the runner packs what the done steps left, *stores* it under the claim,
 * and names it in a *stepPoint*, which takes the blob from the claim. The build has only its last point. If its claim
 * expires, the order of the next attempt names the point, and any runner may go on there.
 *
 * **Shells.** A runner with kept files calls *shells*, which is answered when a user opens one. A shell has no claim.
 * The runner opens a WebSocket for it, as the user does. The servers pass the packets of both ends on
 * (domain/shell-stream.ts) and store nothing.
 *
 * **Outcomes.** A failed command is an outcome. A failure of the runner itself is one too, of kind `lost`, and leads to
 * a retry. Identifiers are texts, because JSON has no 64 bits.
 */

/** Sent with a read by runners that follow an answer to another address. */
export const followsHeader = 'headrace-follows';

/** In the body of a 503: blob storage is unreachable, not the server. */
export const blobsAwayField = 'blobs';

/** A claim that is not extended for this long has expired. */
export const claimSeconds = 15;

/** How long the answer about claims takes if there is nothing to report. */
export const holdSeconds = 5;

export class DrainedError extends Error {
  constructor() {
    super('the runner was drained and has finished its jobs');
  }
}

export type Link = Omit<LinkCalls, 'demand'> & BlobLink & ShellLink;

export type LinkCalls = {
  [Name in CallName]: (message: Message<Name>, signal: AbortSignal) => Promise<Answer<Name>>;
};

export interface ShellLink {
  /** Opens a connection for this shell. */
  shell(id: string): ShellSocket;
}

export interface BlobLink {
  /** Undefined if the server has no such blob. */
  read(digest: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  store(claim: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Stored>;
  /** `content` is a stream of frames. */
  storeFiles(claim: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Kept>;
}

/** `gone`: the files are no longer wanted. */
export type Kept = { kept: true } | { gone: true } | { refused: 'disk_full' | 'too_large' };

/** `gone`: the blob is no longer wanted. `too_large`: the order allows less. */
export type Stored = { digest: string } | { gone: true } | { refused: 'disk_full' | 'too_large' };
