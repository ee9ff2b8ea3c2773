import { formatBytes } from '../shared/lib/byte-units.ts';
import { DiskFullError } from '../shared/lib/disk-reserve.ts';
import type { SuiteOrder } from '../shared/protocol/index.ts';
import { BrokenOffError, inRequests, oneRequest, type Amount } from './artifact-requests.ts';
import { collectFiles, type Collection, type LeftOutReason } from './collector.ts';
import { StoreAwayError } from './failures.ts';
import type { RunnerDeps } from './job-runner.ts';
import { NoRoomHereError, type PendingFiles } from './outbox.ts';
import { untilAnswered } from './retry.ts';
import type { RunFiles } from './sandbox/types.ts';
import { LostClaimError, TooLargeError } from './transfers.ts';

type Wanted = NonNullable<SuiteOrder['artifacts']>;

interface Keeping {
  claim: string;
  /** Takes files that the server cannot store at the moment. */
  waiting: Pick<PendingFiles, 'isStuck' | 'addFile'>;
  /** Adds to the build's log. */
  print: (text: string) => void | Promise<void>;
  signal: AbortSignal;
}

/** How often sending may be interrupted without progress. At the next interruption the rest goes to the outbox. */
const mostInVain = 5;

/** Streams a suite's artifacts to the server. Problems are logged and do not change the build's result. */
export async function keepArtifacts(
  { link, log }: Pick<RunnerDeps, 'link' | 'log'>,
  left: RunFiles,
  wanted: Wanted,
  { claim, waiting, print, signal }: Keeping,
): Promise<void> {
  const sent = { files: 0, bytes: 0 };
  const stored = { files: 0, bytes: 0 };
  const open = () => oneRequest(link, claim, signal);
  const collect = async (): Promise<Collection> => {
    const requests = inRequests(open, sent);
    const collection = await collectFiles(left, { ...wanted, skip: sent.files, signal }, (file) => requests.take(file));
    await requests.end();
    return collection;
  };
  /** Continues after an interrupted request. Undefined if the outbox must take the rest. */
  const sendAll = async (): Promise<Collection | undefined> => {
    for (let inVain = 0, before = 0; ; inVain = sent.files > before ? 0 : inVain + 1, before = sent.files) {
      await untilAnswered(signal, () => open().end()); // waits while the server is unreachable
      try {
        return await collect();
      } catch (error) {
        if (error instanceof StoreAwayError) return undefined;
        if (!(error instanceof BrokenOffError)) throw error;
        if (inVain >= mostInVain) {
          log(`the artifacts of a build wait here: ${messageFor(error)}`);
          return undefined;
        }
      }
    }
  };
  const keepRest = (): Promise<Collection> =>
    collectFiles(left, { ...wanted, skip: sent.files, signal }, async (file) => {
      await waiting.addFile(file);
      stored.files += 1;
      stored.bytes += file.size;
    });
  try {
    const found = (waiting.isStuck() ? undefined : await sendAll()) ?? (await keepRest());
    await print(report(sent, stored, found));
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof LostClaimError) throw error;
    if (!(error instanceof DiskFullError)) log(`the artifacts of a build were not stored: ${messageFor(error)}`);
    const rest = stored.files > 0 ? `; ${amount(stored)} wait on the runner` : '';
    await print(`\nNot all artifacts are stored (${storedAmount(sent)}${rest}): ${whyNot(error)}.\n`);
  }
}

function messageFor(error: unknown): string {
  return error instanceof Error && error.cause !== undefined
    ? `${error.message}: ${messageFor(error.cause)}`
    : String(error);
}

function whyNot(error: unknown): string {
  if (error instanceof NoRoomHereError) return 'the disk of the runner is full';
  if (error instanceof TooLargeError) return 'the server accepts no more from this build';
  if (error instanceof DiskFullError) return 'the disk of the server is full';
  return 'the server rejected them';
}

const reasons: Record<LeftOutReason, string> = {
  name: 'the name is not text or contains control characters',
  deep: 'the path is too long',
  many: 'too many files',
  large: 'too large for the rest of the limit',
  link: 'a link',
  special: 'not a regular file',
  unreadable: 'cannot be read',
};

const failures: Record<NonNullable<Collection['failure']>, string> = {
  timed_out: 'it took too long',
  cancelled: 'it was ended',
  out_of_memory: 'it exceeded its memory limit',
  out_of_disk: 'the disk of the runner is full',
  failed: 'a file could not be read',
};

function report(sent: Amount, waiting: Amount, found: Collection): string {
  const lines = waiting.files === 0 || sent.files > 0 ? [`Artifacts: ${storedAmount(sent)}.`] : [];
  if (waiting.files > 0)
    lines.push(`Artifacts: ${amount(waiting)} wait on the runner, because the server cannot store them now.`);
  lines.push(...found.unmatched.map((glob) => `Artifacts: no file matches ${glob}`));
  lines.push(...found.leftOut.map(({ path, reason }) => `Artifacts: skipped ${path} (${reasons[reason]})`));
  const more = Object.values(found.leftOutCounts).reduce((sum, count) => sum + count, 0) - found.leftOut.length;
  if (more > 0) lines.push(`Artifacts: ${more} more were skipped.`);
  if (found.isPartial) lines.push('Artifacts: the workspace has too many files to check all of them.');
  if (found.failure !== null) lines.push(`Artifacts: not all are stored, ${failures[found.failure]}.`);
  return `\n${lines.join('\n')}\n`;
}

function storedAmount({ files, bytes }: Amount): string {
  return files === 0 ? 'none kept' : `${counted(files)} kept, ${formatBytes(bytes)}`;
}

function amount({ files, bytes }: Amount): string {
  return `${counted(files)} (${formatBytes(bytes)})`;
}

function counted(files: number): string {
  return files === 1 ? '1 file' : `${files} files`;
}
