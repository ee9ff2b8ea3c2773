import { most } from '../../shared/domain/bounds.ts';
import type { Annotation } from '../../shared/records/build.ts';
import type { Database, Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { PlacedTest } from '../results/packed-tests.ts';
import { testsOf } from '../results/test-results.ts';
import {
  cleanText,
  findAnnotations,
  storeAnnotations,
  storedAnnotations,
  type LogAnnotation,
  type LogAnnotations,
} from '../streams/annotations.ts';
import { lineIndex } from '../streams/line-index.ts';
import type { SearchParts } from '../streams/search.ts';
import { settingsOf } from './file-suites.ts';

const columns = [
  'id',
  'project_id',
  'build_request_id',
  'suite_id',
  'suite_name',
  'variant',
  'tests_failed',
  'finished_at',
] as const;
type AnnotatedBuild = Pick<BuildRow, (typeof columns)[number]>;

/** Some old suites of files lack the field. */
async function hasCompilers(db: Queries, build: AnnotatedBuild): Promise<boolean> {
  return (await settingsOf(db, build))?.annotations === 'compiler';
}

/** For a packed log, if it is a build's. */
export async function storeBuildAnnotations(
  parts: Omit<SearchParts, 'db'> & { db: Database },
  id: bigint,
): Promise<void> {
  const { read } = parts.db;
  const builds = read.selectFrom('builds').select(columns).where('id', '=', id);
  const build = await builds.executeTakeFirst();
  if (build) await storeAnnotations(parts, id, await hasCompilers(read, build));
}

interface Wanted {
  account: bigint;
  /** The search in a log that is not packed stops after this time. */
  milliseconds: number;
}

/** Those of failed tests, then those of the log in its order. The last one says if there are more. */
export async function annotationsOf(parts: SearchParts, build: AnnotatedBuild, wanted: Wanted): Promise<Annotation[]> {
  const tests = await failedTests(parts.db, build);
  const log = (await storedAnnotations(parts.db, build.id)) ?? (await searchedLog(parts, build, wanted));
  const shown = [...tests.slice(0, most.annotations).map(ofTest), ...log.annotations.map(ofLog)];
  const hasMore = tests.length > most.annotations || log.hasMore;
  return hasMore ? [...shown, moreAnnotations] : shown;
}

const moreAnnotations: Annotation = {
  level: 'notice',
  file: null,
  line: null,
  end_line: null,
  title: null,
  message: `There are more. The first ${most.annotations} of the log and of the failed tests are listed.`,
  log_line: null,
};

async function searchedLog(parts: SearchParts, build: AnnotatedBuild, wanted: Wanted): Promise<LogAnnotations> {
  // While the log grows, its page would search it again and again.
  const index = build.finished_at === null ? undefined : await lineIndex(parts, build.id);
  if (!index || index.total === 0) return { annotations: [], hasMore: false };
  return findAnnotations(parts, index, { ...wanted, hasCompilers: await hasCompilers(parts.db, build) });
}

async function failedTests(db: Queries, build: AnnotatedBuild): Promise<(PlacedTest & { line: number })[]> {
  if (build.tests_failed === 0) return [];
  const failed = await testsOf(db, build.id, { state: 'failed', limit: mostRead });
  return failed.flatMap((test) => (test.file !== '' && test.line !== undefined ? [{ ...test, line: test.line }] : []));
}

/** Failed tests are read up to this number, because not all may have a line. */
const mostRead = 1000;

function ofTest({ name, file, line, message }: PlacedTest & { line: number }): Annotation {
  const [title, text] = [cleanText(name), cleanText(message)];
  return { level: 'error', file: cleanText(file), line, end_line: null, title, message: text, log_line: null };
}

function ofLog({ level, file, line, endLine, title, message, logLine }: LogAnnotation): Annotation {
  return { level, file, line, end_line: endLine, title, message, log_line: logLine };
}
