import { inUnits } from '../lib/amounts.ts';
import { DiskFullError } from '../lib/disk-reserve.ts';
import { frameHead } from '../lib/frames.ts';
import type { Kept, Link, SuiteOrder } from '../protocol/index.ts';
import { collectFiles, type CollectedFile, type Collection, type LeftOutReason } from './collector.ts';
import { handOver } from './hand-over.ts';
import type { RunnerServices } from './job-runner.ts';
import { RejectedError } from './failures.ts';
import { isFinal, untilAnswered } from './retry.ts';
import type { Left } from './sandbox/types.ts';

type Wanted = NonNullable<SuiteOrder['artifacts']>;

interface Keeping {
  claim: string;
  /** Adds to the log of the build. */
  tell: (text: string) => void | Promise<void>;
  signal: AbortSignal;
}

/** One request carries so much and no more: when it breaks off, so much is sent again. */
const requestBytes = 64 * 1024 * 1024;
const requestFiles = 1000;
/** So many requests in a row may break off before the rest is given up. */
const mostInVain = 5;

/**
 * Sends the files that a suite keeps to the server, from the collector's stream and as it comes: nothing is stored here.
 * Whatever happens is told in the log, and the result of the build does not change.
 */
export async function keepArtifacts(
  { link, log }: Pick<RunnerServices, 'link' | 'log'>,
  left: Left,
  wanted: Wanted,
  { claim, tell, signal }: Keeping,
): Promise<void> {
  const sent = { files: 0, bytes: 0 };
  const open = (): Request => oneRequest(link, claim, signal);
  const collect = async (): Promise<Collection> => {
    const requests = inRequests(open, sent);
    const collection = await collectFiles(left, { ...wanted, skip: sent.files, signal }, (file) => requests.take(file));
    await requests.end();
    return collection;
  };
  /** After a request that broke off, goes on where the last one ended. */
  const collectAll = async (): Promise<Collection> => {
    for (let inVain = 0, before = 0; ; inVain = sent.files > before ? 0 : inVain + 1, before = sent.files) {
      await untilAnswered(signal, () => open().end()); // waits for a server that is away
      try {
        return await collect();
      } catch (error) {
        if (!(error instanceof BrokenOffError) || inVain >= mostInVain) throw error;
      }
    }
  };
  try {
    await tell(report(sent, await collectAll()));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof LostClaimError) throw error;
    if (!(error instanceof DiskFullError)) log(`the artifacts of a build were not kept: ${words(error)}`);
    await tell(`\nNot all artifacts are kept (${amount(sent)}): ${whyNot(error)}.\n`);
  }
}

class LostClaimError extends RejectedError {}

/** A request did not get through; another one may. */
class BrokenOffError extends Error {}

/** The server keeps to its own limits, which may have changed since the order. */
class TooLargeError extends DiskFullError {}

interface Request {
  take(file: CollectedFile): Promise<void>;
  /** Throws unless the server has kept everything. */
  end(): Promise<void>;
}

function oneRequest(link: Pick<Link, 'keep'>, claim: string, signal: AbortSignal): Request {
  const over = new AbortController();
  const passage = handOver();
  const answered = link.keep(claim, passage.chunks(), AbortSignal.any([signal, over.signal])).then(check, brokenOff);
  // An answer before the end is a refusal, or a lost connection; nobody takes more bytes then.
  let early: { error: unknown } | undefined;
  const stop = (error: unknown): void => {
    early = { error };
    passage.discard();
  };
  answered.then(() => stop(new BrokenOffError('the server answered too early')), stop);
  const give = async (bytes: Buffer): Promise<void> => {
    await passage.give(bytes);
    if (early) throw early.error;
  };
  const dropping = async (work: Promise<void>): Promise<void> =>
    work.catch((error: unknown) => {
      passage.discard();
      over.abort();
      throw error;
    });
  return {
    take: ({ path, size, content }) =>
      dropping(
        (async () => {
          await give(frameHead('F', size, path));
          for await (const piece of content) await give(piece);
        })(),
      ),
    end: () => {
      passage.end();
      return dropping(answered);
    },
  };
}

function brokenOff(error: unknown): never {
  throw isFinal(error) ? error : new BrokenOffError('a request broke off', { cause: error });
}

function check(answer: Kept): void {
  if ('gone' in answer) throw new LostClaimError('the claim expired');
  if ('refused' in answer) throw answer.refused === 'disk_full' ? new DiskFullError() : new TooLargeError();
}

/** Spreads the files over requests, and counts those that are certainly kept. */
function inRequests(open: () => Request, sent: { files: number; bytes: number }): Request {
  let current: { request: Request; files: number; bytes: number } | undefined;
  const end = async (): Promise<void> => {
    if (!current) return;
    const { request, files, bytes } = current;
    await request.end();
    current = undefined;
    sent.files += files;
    sent.bytes += bytes;
  };
  return {
    async take(file) {
      current ??= { request: open(), files: 0, bytes: 0 };
      await current.request.take(file);
      current.files += 1;
      current.bytes += file.size;
      if (current.bytes >= requestBytes || current.files >= requestFiles) await end();
    },
    end,
  };
}

function words(error: unknown): string {
  return error instanceof Error && error.cause !== undefined
    ? `${error.message}: ${words(error.cause)}`
    : String(error);
}

function whyNot(error: unknown): string {
  if (error instanceof TooLargeError) return 'the server takes no more of this build';
  if (error instanceof DiskFullError) return 'the disk of the server is full';
  return 'the server did not take them';
}

const reasons: Record<LeftOutReason, string> = {
  name: 'the name is no text or has control characters in it',
  deep: 'the path is too long',
  many: 'too many files',
  large: 'too large for what is left of the limit',
  link: 'a link',
  special: 'no regular file',
  unreadable: 'cannot be read',
};

const failures: Record<NonNullable<Collection['failure']>, string> = {
  timed_out: 'it took too long',
  cancelled: 'it was ended',
  out_of_memory: 'it needed too much memory',
  out_of_disk: 'the disk of the runner is full',
  failed: 'a file could not be read',
};

function report(sent: { files: number; bytes: number }, found: Collection): string {
  const lines = [`Artifacts: ${amount(sent)}.`];
  lines.push(...found.unmatched.map((glob) => `Artifacts: nothing matches ${glob}`));
  lines.push(...found.leftOut.map(({ path, reason }) => `Artifacts: left out ${path} (${reasons[reason]})`));
  const more = Object.values(found.leftOutCounts).reduce((sum, count) => sum + count, 0) - found.leftOut.length;
  if (more > 0) lines.push(`Artifacts: ${more} more were left out.`);
  if (found.isPartial) lines.push('Artifacts: the workspace has too many files to look at all of them.');
  if (found.failure !== null) lines.push(`Artifacts: not all are kept, ${failures[found.failure]}.`);
  return `\n${lines.join('\n')}\n`;
}

function amount({ files, bytes }: { files: number; bytes: number }): string {
  if (files === 0) return 'none kept';
  return `${files === 1 ? '1 file' : `${files} files`} kept, ${inUnits(bytes)}`;
}
