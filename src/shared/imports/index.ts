import { checkFile } from '../documents/file.ts';
import { readFile, RefusedError, type ParsedFile } from '../documents/mistakes.ts';
import { bytes, most } from '../domain/bounds.ts';
import { fromGithub } from './github.ts';
import type { Repository } from './gitlab-conditions.ts';
import { fromGitlab } from './gitlab.ts';
import {
  emptyTranslation,
  isTable,
  type Lost,
  type Source,
  type Suite,
  type Tally,
  type Translation,
} from './model.ts';
import { freeName } from './names.ts';
import { fromTravis } from './travis.ts';
import { fromWoodpecker } from './woodpecker.ts';
import { writeToml } from './write.ts';

export { reference } from './gitlab-templates.ts';

export interface Imported {
  /** The text of a `.headrace.toml`. */
  text: string;
  carried: number;
  total: number;
  lost: Lost[];
  /** What to set before the file is used. */
  hints: string[];
  /** What `headrace check` says of the text. */
  mistakes: string[];
  suites: string[];
}

export type ParseYaml = (text: string) => Promise<ParsedFile>;

interface Options {
  parseYaml: ParseYaml;
  /** A file that cannot be read is only left out. */
  leavesOut?: boolean;
}

class UnreadableError extends RefusedError {
  readonly lost: Lost;

  constructor(file: string, why: string, line?: number) {
    super([`${file}${line === undefined ? '' : `:${line}`} cannot be read: ${why}`]);
    this.lost = {
      file,
      ...(line !== undefined && { line }),
      what: 'the file',
      why: `cannot be read: ${why.replace(/\.$/, '')}`,
    };
  }
}

/** Runs nothing and reads nothing but these texts. Throws a RefusedError if one cannot be read. */
export async function importFiles(
  files: readonly { path: string; text: string }[],
  { parseYaml, leavesOut = false, ...repository }: Repository & Options,
): Promise<Imported> {
  const all: { translation: Translation; tally: Tally }[] = [];
  const lost: Lost[] = [];
  if (files.length > most.importedFiles) throw new RefusedError([`These are more than ${most.importedFiles} files.`]);
  for (const { path, text } of files) {
    try {
      for (const source of await documentsOf(path, text, parseYaml)) all.push(translated(source, repository));
    } catch (error) {
      if (!(error instanceof UnreadableError && leavesOut)) throw error;
      lost.push(error.lost);
    }
  }
  const whole = joined(all.map(({ translation }) => translation));
  whole.notes.unshift(`From ${files.map(({ path }) => path).join(', ')} by headrace import.`);
  lost.push(...all.flatMap(({ tally }) => tally.lost));
  const carried = all.reduce((sum, { tally }) => sum + tally.kept, 0);
  const text = writeToml(whole);
  return {
    text,
    carried,
    total: carried + lost.length,
    lost,
    hints: [...whole.secrets.values(), ...whole.toSet],
    mistakes: await mistakesIn(text),
    suites: whole.suites.map(({ name }) => name),
  };
}

async function mistakesIn(text: string): Promise<string[]> {
  try {
    checkFile(await readFile(text, '.headrace.toml', () => Promise.resolve({ problem: '' })));
    return [];
  } catch (error) {
    if (error instanceof RefusedError) return error.lines;
    throw error;
  }
}

/** A file may have several documents. */
async function documentsOf(path: string, text: string, parseYaml: ParseYaml): Promise<Source[]> {
  if (Buffer.byteLength(text) > bytes.configFile)
    throw new UnreadableError(path, `it has more than ${bytes.configFile / 1024} kB.`);
  const sources: Source[] = [];
  let before = 0;
  for (const part of text.split(/^---(?=\s|$)[^\n]*\n?/m)) {
    const parsed = part.trim() === '' ? undefined : await parseYaml(part);
    if (parsed && 'problem' in parsed) {
      const why = parsed.problem.split('\n', 1)[0]?.slice(0, 300) ?? '';
      throw new UnreadableError(path, why, parsed.line === undefined ? undefined : parsed.line + before);
    }
    const start = before;
    if (parsed && isTable(parsed.value))
      sources.push({
        path,
        value: parsed.value,
        lines: new Map(parsed.lines.entries().map(([at, line]) => [at, line + start])),
      });
    before += part.split('\n').length - 1 + (part === text ? 0 : 1);
  }
  if (sources.length === 0) throw new UnreadableError(path, 'it is not a table of settings.');
  return sources;
}

/** By the name of the file, or else by what is in it. */
function translated(source: Source, repository: Repository): { translation: Translation; tally: Tally } {
  const { path, value } = source;
  const has = (...names: string[]): boolean => isTable(value) && names.some((name) => value[name] !== undefined);
  const [, name = ''] = /([^/\\]*)$/.exec(path) ?? [];
  const stem = name.replace(/\.ya?ml$/i, '').replace(/^\./, '');
  const isNamed = /^\.(?:gitlab-ci|travis|drone|woodpecker)\./.test(name);
  if (name.startsWith('.travis.')) return fromTravis(source);
  if (name.startsWith('.gitlab-ci.')) return fromGitlab(source, repository);
  if (name.startsWith('.drone.') || (!isNamed && has('kind'))) return fromWoodpecker(source, 'drone', stem);
  if (name.startsWith('.woodpecker.') || /(?:^|[/\\])\.woodpecker[/\\]/.test(path))
    return fromWoodpecker(source, 'woodpecker', stem);
  if (has('jobs') && has('on', 'true')) return fromGithub(source);
  if (has('steps', 'pipeline')) return fromWoodpecker(source, 'woodpecker', stem);
  return has('language', 'install') ? fromTravis(source) : fromGitlab(source, repository);
}

/** Suites of the same name in two files get another one. */
function joined(all: readonly Translation[]): Translation {
  const whole = emptyTranslation();
  const taken = new Set<string>();
  const hasSchedules = all.some(({ schedules }) => schedules.length > 0);
  for (const translation of all) {
    const names = new Map(translation.suites.map(({ name }) => [name, '']));
    for (const name of names.keys()) {
      const free = freeName(name, taken);
      taken.add(free);
      names.set(name, free);
    }
    for (const suite of translation.suites) {
      renamed(suite, names);
      if (hasSchedules && translation.schedules.length === 0 && !limitsEvents(suite))
        suite.rules.push({ subject: 'request.event', operator: 'does_not_equal', value: 'schedule' });
      whole.suites.push(suite);
    }
    whole.notes.push(...translation.notes);
    whole.schedules.push(
      ...translation.schedules.filter((one) => !whole.schedules.some((other) => other.cron === one.cron)),
    );
    whole.parameters.push(
      ...translation.parameters.filter((one) => !whole.parameters.some((other) => other.name === one.name)),
    );
    for (const [name, why] of translation.secrets) whole.secrets.set(name, why);
    for (const one of translation.toSet) whole.toSet.add(one);
  }
  whole.notes.push(...whole.toSet);
  withoutMissing(whole);
  return whole;
}

const limitsEvents = ({ rules }: Suite): boolean =>
  rules.some(({ subject, operator }) => subject === 'request.event' && !operator.startsWith('does'));

function renamed(suite: Suite, names: ReadonlyMap<string, string>): void {
  const other = (name: string): string => names.get(name) ?? name;
  suite.name = other(suite.name);
  suite.needs = suite.needs.map(other);
  for (const field of ['files_from', 'extends'])
    if (suite.fields[field] !== undefined) suite.fields[field] = other(String(suite.fields[field]));
}

/** What needs a job that was not carried over runs without it. */
function withoutMissing(whole: Translation): void {
  if (whole.suites.length > most.suitesInDocument) {
    whole.notes.push(
      `A file has at most ${most.suitesInDocument} suites: ${whole.suites.length - most.suitesInDocument} are missing here.`,
    );
    whole.suites.length = most.suitesInDocument;
  }
  const byName = new Map(whole.suites.map((suite) => [suite.name, suite]));
  const secrets = new Set(whole.secrets.keys());
  for (const suite of whole.suites) {
    const missing = suite.needs.filter((name) => !byName.has(name));
    if (missing.length > 0) suite.notes.push(`It needs ${missing.join(', ')} there, which is not carried over.`);
    suite.needs = [...new Set(suite.needs)].filter((name) => byName.has(name)).slice(0, most.neededSuites);
    const from = suite.fields.files_from;
    if (from !== undefined && !suite.needs.includes(String(from))) delete suite.fields.files_from;
    suite.variables = suite.variables.filter(({ name }) => !secrets.has(name));
  }
}
