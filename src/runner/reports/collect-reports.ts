import { setImmediate as nextTurn } from 'node:timers/promises';
import { most } from '../../shared/domain/bounds.ts';
import { messageOf } from '../../shared/lib/error-code.ts';
import { createMask, type Mask } from '../../shared/domain/masking.ts';
import type { Link } from '../../shared/protocol/index.ts';
import { collectFiles, type CollectedFile, type Collection } from '../collector.ts';
import type { RunFiles } from '../sandbox/types.ts';
import { createReportDecoder } from '../../shared/junit/decoding.ts';
import { createJunitReader } from '../../shared/junit/reader.ts';
import { TestSender } from './test-sender.ts';
import { asName } from '../../shared/junit/texts.ts';
import { UnreadableReportError } from '../../shared/junit/unreadable.ts';

const mostReports = 10_000;
const mostBytes = 1024 * 1024 * 1024;
/** Between pieces of this size, the runner works on its other jobs. */
const pieceSize = 16 * 1024;
/** The limit on unreadable reports that the log names. */
const mostTold = 20;

export interface ReportOptions {
  globs: readonly string[];
  secrets: readonly string[];
  link: Pick<Link, 'tests'>;
  claim: string;
  /** Writes to the build's log. */
  tell: (text: string) => void | Promise<void>;
  signal: AbortSignal;
}

/** Sends the tests in a build's reports to the server. Problems are logged and change nothing else. */
export async function collectReports(left: RunFiles, options: ReportOptions): Promise<void> {
  const { globs, tell, signal } = options;
  const mask = createMask(options.secrets);
  const sender = new TestSender(options);
  const troubles: string[] = [];
  try {
    const found = await collectFiles(left, { globs, mostFiles: mostReports, mostBytes, signal }, async (file) => {
      const problem = await readReport(file, mask, sender);
      if (problem !== undefined) troubles.push(problem);
    });
    await sender.end();
    await tell(summaryOf(found, sender, troubles));
  } catch (error) {
    signal.throwIfAborted();
    await tell(`\nThe test results were lost: ${messageOf(error)}.\n`);
  }
}

/** Returns the reason if the report could not be read to its end. The tests before the error count. */
async function readReport(
  { path, content }: CollectedFile,
  mask: Mask,
  sender: TestSender,
): Promise<string | undefined> {
  const decoder = createReportDecoder();
  let count = 0;
  const reader = createJunitReader(mask, (test) => {
    count += 1;
    sender.add(test);
  });
  let problem: string | undefined;
  const attempt = (work: () => void): void => {
    try {
      if (problem === undefined && !sender.isOver) work();
    } catch (error) {
      if (!(error instanceof UnreadableReportError)) throw error;
      const before = count === 1 ? ' The test before the error counts.' : ` The ${count} tests before the error count.`;
      problem = `The report ${asName(path)} could not be read: ${error.message}.${count === 0 ? '' : before}`;
    }
  };
  for await (const chunk of content) {
    for (let at = 0; at < chunk.length; at += pieceSize) {
      attempt(() => reader.write(decoder.write(chunk.subarray(at, at + pieceSize))));
      await sender.sendFull();
      await nextTurn();
    }
  }
  attempt(() => {
    reader.write(decoder.end());
    reader.end();
  });
  return problem;
}

function summaryOf(found: Collection, sender: TestSender, troubles: readonly string[]): string {
  const { passed, failed, skipped } = sender.counts;
  const reports = found.files === 1 ? '1 report' : `${found.files} reports`;
  const others = Object.entries(found.leftOutCounts).map(
    ([reason, count]) => `${count === 1 ? '1 file' : `${count} files`} that match were skipped (${reason}).`,
  );
  const lines = [
    ...found.unmatched.map((glob) => `No file matches the report pattern ${glob}.`),
    ...troubles.slice(0, mostTold),
    ...(troubles.length > mostTold ? [`${troubles.length - mostTold} more reports could not be read.`] : []),
    ...others,
    ...(found.isPartial ? ['There are too many files: not all were checked.'] : []),
    ...(found.failure === null ? [] : [`Reading the reports stopped early: ${found.failure.replaceAll('_', ' ')}.`]),
    ...refusalOf(sender),
    ...(found.files > 0 ? [`Tests: ${passed} passed, ${failed} failed, ${skipped} skipped, in ${reports}.`] : []),
  ];
  return `\n${lines.join('\n')}\n`;
}

function refusalOf({ refusal, isFull }: TestSender): string[] {
  if (refusal === 'disk_full') return ['The test results were not stored: the disk of the server is full.'];
  if (refusal !== undefined || isFull)
    return [`The reports exceed the limit of tests per build: the first ${most.tests} count.`];
  return [];
}
