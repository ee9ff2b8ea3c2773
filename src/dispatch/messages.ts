import { ApiError } from '../errors.ts';
import { boundedMessage, boundedNames, boundedPerson } from '../lib/commit-bounds.ts';
import { bytes as mostBytes, longest, most } from '../lib/bounds.ts';
import { mostShells } from '../lib/shell-limits.ts';
import { placeKinds } from '../lib/places.ts';
import { readTags, tagsIn } from '../lib/tags.ts';
import {
  mostLooks,
  shellEnds,
  uploadsLost,
  type SavedCache,
  type CallName,
  type CommitReport,
  type ConfigFile,
  type CutReason,
  type FinishReport,
  type KeptFiles,
  type LogChunk,
  type LogPart,
  type KeptTree,
  type LookReport,
  type Outcome,
  type ShellEnd,
  type StepReport,
  type TrunkNews,
  type UploadReport,
  type Wish,
} from '../protocol/index.ts';

/**
 * Reads the messages of runners strictly. A runner is another machine, and an attacker may have taken it over. A value
 * of the wrong type, length or form is refused under its name, before it is used. Unknown fields are left out.
 */
type Read<T> = (value: unknown, name: string) => T;

function refuse(name: string): never {
  throw new ApiError('invalid_format', name);
}

const matching =
  (form: RegExp): Read<string> =>
  (value, name) =>
    typeof value === 'string' && form.test(value) ? value : refuse(name);

/** Text that either database can store. */
const text =
  (length: number): Read<string> =>
  (value, name) =>
    typeof value === 'string' && value.length <= length && !value.includes('\0') ? value : refuse(name);

const whole =
  (largest: number): Read<number> =>
  (value, name) =>
    Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= largest
      ? (value as number)
      : refuse(name);

const list =
  <T>(length: number, item: Read<T>): Read<T[]> =>
  (value, name) =>
    Array.isArray(value) && value.length <= length ? value.map((one) => item(one, name)) : refuse(name);

const orNull =
  <T>(read: Read<T>): Read<T | null> =>
  (value, name) =>
    value === null ? null : read(value, name);

const flag: Read<boolean> = (value, name) => (typeof value === 'boolean' ? value : refuse(name));

function group(value: unknown, name: string): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : refuse(name);
}

/** The runner chooses the names of claims. They are long enough that nobody can guess another's. */
const claim = matching(/^[\w-]{16,64}$/);
const digest = matching(/^[0-9a-f]{64}$/);
const size = whole(Number.MAX_SAFE_INTEGER);
/** A reason in one word. */
const reason = matching(/^[a-z][a-z0-9_]{0,63}$/);

const cutReason: Read<CutReason> = (value, name) =>
  value === 'log_too_long' || value === 'disk_full' ? value : refuse(name);

const trunkNews: Read<TrunkNews> = (value, name) =>
  value === 'this' || value === 'kept' || value === 'none' ? value : refuse(name);

/** What is cut is not refused for its length; the body has a limit of its own. */
const anyLength = Infinity;
const words: Read<string> = (value, name) => text(anyLength)(value, name).slice(0, longest.runnerWords);
const gitName = text(longest.gitName);

export function readClaim(body: unknown): string {
  return claim(group(body, 'generic').claim, 'claim');
}

/** The number of a call. */
export function readId({ id }: Record<string, unknown>): number {
  return size(id, 'id');
}

export function readName({ call }: Record<string, unknown>, names: ReadonlySet<string>): CallName {
  return typeof call === 'string' && names.has(call) ? (call as CallName) : refuse('call');
}

/** A free place; one that does not say what it is for takes everything. */
export function readWish(body: unknown): Wish {
  const { place, holdMs } = group(body, 'generic');
  return {
    claim: readClaim(body),
    ...(place === undefined ? {} : { place: placeKinds.find((kind) => kind === place) ?? refuse('place') }),
    ...(holdMs === undefined ? {} : { holdMs: whole(longestHoldMs)(holdMs, 'holdMs') }),
  };
}

/** A timer takes no more. */
const longestHoldMs = 2 ** 31 - 1;

export function readLogChunk(body: unknown): LogChunk {
  const { offset, bytes } = group(body, 'generic');
  if (!Buffer.isBuffer(bytes) || bytes.length > mostBytes.logChunk) refuse('bytes');
  return { claim: readClaim(body), offset: whole(furthest)(offset, 'offset'), bytes };
}

/** No log is longer. */
const furthest = 10 ** 15 - 1;

export function readClaims(body: unknown): string[] {
  return [...new Set(list(most.claims, claim)(group(body, 'generic').claims, 'claims'))];
}

/** The identifiers of projects, in decimal. */
export function readProjects(body: unknown): string[] {
  return list(most.askedAbout, matching(/^[0-9]{1,18}$/))(group(body, 'generic').projects, 'projects');
}

/** How many looks a runner has room for. */
export function readRoom(body: unknown): number {
  return whole(mostLooks)(group(body, 'generic').room, 'room');
}

export function readLooked(body: unknown): LookReport[] {
  return list(most.lookReports, readLook)(group(body, 'generic').reports, 'reports');
}

const readLook: Read<LookReport> = (value, name) => {
  const report = group(value, name);
  return {
    projectId: matching(/^[0-9]{1,18}$/)(report.projectId, `${name}[projectId]`),
    claim: claim(report.claim, `${name}[claim]`),
    seen: readSeen(group(report.seen, `${name}[seen]`), `${name}[seen]`),
  };
};

function readSeen(seen: Record<string, unknown>, name: string): LookReport['seen'] {
  if (seen.listing !== undefined) return { listing: text(mostBytes.refListing)(seen.listing, `${name}[listing]`) };
  if (seen.unchanged === true) return { unchanged: true };
  return { failed: reason(seen.failed, `${name}[failed]`), message: words(seen.message, `${name}[message]`) };
}

type Headers = Record<string, unknown>;

export function readClaimHeader(headers: Headers): string {
  return claim(headers['headrace-claim'], 'headrace-claim');
}

/** A runner that does not send tags has none. */
export function readTagsHeader(headers: Headers): string {
  const { 'headrace-tags': sent = '' } = headers;
  return (typeof sent === 'string' ? readTags(tagsIn(sent)) : undefined) ?? refuse('headrace-tags');
}

const digits = matching(/^\d{1,15}$/);

/** How many places for builds the runner has; 0 where it does not say. */
export function readPlacesHeader({ 'headrace-places': sent = '0' }: Headers): number {
  return Number(smallNumber(sent, 'headrace-places'));
}

const smallNumber = matching(/^\d{1,4}$/);

export function readOffset(value: unknown, name = 'offset'): number {
  return Number(digits(value, name));
}

export function readDigest(value: unknown): string | undefined {
  return typeof value === 'string' && /^[0-9a-f]{64}$/.test(value) ? value : undefined;
}

export function readReport(body: unknown): FinishReport {
  const report = group(body, 'generic');
  return {
    claim: claim(report.claim, 'claim'),
    outcome: readOutcome(report.outcome),
    logSize: size(report.logSize, 'logSize'),
    ...(report.steps === undefined ? {} : { steps: list(most.steps, readStep)(report.steps, 'steps') }),
    ...(report.kept === undefined ? {} : { kept: readKeptFiles(report.kept) }),
    ...(report.uploads === undefined ? {} : { uploads: flag(report.uploads, 'uploads') }),
    ...(report.output === undefined ? {} : { output: readLogPart(report.output) }),
  };
}

/** What became of the files of a build that waited on its runner. */
export function readUploaded(body: unknown): UploadReport {
  const { claim: under, cache, lost } = group(body, 'generic');
  return {
    claim: claim(under, 'claim'),
    ...(cache === undefined ? {} : { cache: readSavedCache(cache, 'cache') }),
    ...(lost === undefined ? {} : { lost: uploadsLost.find((why) => why === lost) ?? refuse('lost') }),
  };
}

function readLogPart(value: unknown): LogPart {
  const { from, to } = group(value, 'output');
  return { from: size(from, 'output[from]'), to: size(to, 'output[to]') };
}

const key256 = matching(/^[0-9a-f]{64}$/);

function readKeptFiles(value: unknown): KeptFiles {
  const kept = group(value, 'kept');
  return {
    keeper: claim(kept.keeper, 'kept[keeper]'),
    name: claim(kept.name, 'kept[name]'),
    key: key256(kept.key, 'kept[key]'),
  };
}

const readStep: Read<StepReport> = (value, name) => {
  const step = group(value, name);
  return {
    name: text(anyLength)(step.name, `${name}[name]`)
      .slice(0, longest.stepName)
      .replaceAll(/\p{Cc}/gu, ' '),
    from: size(step.from, `${name}[from]`),
    to: size(step.to, `${name}[to]`),
  };
};

const identifier = matching(/^[1-9][0-9]{0,18}$/);

/** A runner asks for shells in the files that it keeps. */
export function readShellsAsked(body: unknown): { keeper: string; running: bigint[]; room: number } {
  const asked = group(body, 'generic');
  return {
    keeper: claim(asked.keeper, 'keeper'),
    running: list(mostShells, identifier)(asked.running, 'running').map(BigInt),
    room: whole(mostShells)(asked.room, 'room'),
  };
}

export function readShellInput(body: unknown): { id: bigint; from: number } {
  const { shell, from } = group(body, 'generic');
  return { id: BigInt(identifier(shell, 'shell')), from: size(from, 'from') };
}

export function readShellOutput(body: unknown): { id: bigint; offset: number; bytes: Buffer } {
  const { shell, offset, bytes } = group(body, 'generic');
  if (!Buffer.isBuffer(bytes) || bytes.length === 0 || bytes.length > mostBytes.shellOutput) refuse('bytes');
  return { id: BigInt(identifier(shell, 'shell')), offset: size(offset, 'offset'), bytes };
}

export function readShellEnd(body: unknown): { id: bigint; reason: ShellEnd } {
  const { shell, reason: said } = group(body, 'generic');
  const reason = shellEnds.find((one) => one === said) ?? refuse('reason');
  return { id: BigInt(identifier(shell, 'shell')), reason };
}

const buildName = matching(/^[0-9]{1,18}$/);

const readSavedCache: Read<SavedCache> = (value, name) => {
  const { digest: blob, began } = group(value, name);
  return {
    digest: digest(blob, `${name}[digest]`),
    ...(began === undefined ? {} : { began: identifier(began, `${name}[began]`) }),
  };
};

/** The trees of caches that a runner keeps. */
export function readKeptTrees(body: unknown): KeptTree[] {
  return list(most.askedAbout, (value, name) => {
    const tree = group(value, name);
    return {
      project: buildName(tree.project, `${name}[project]`),
      name: buildName(tree.name, `${name}[name]`),
    };
  })(group(body, 'generic').trees, 'trees');
}

type Details = {
  [JobHandler in Outcome['kind']]: (outcome: Record<string, unknown>) => Extract<Outcome, { kind: JobHandler }>;
};

const details: Details = {
  fetched: ({ commit, config }) => ({
    kind: 'fetched',
    commit: readCommit(commit),
    ...(config === undefined ? {} : { config: readConfig(config) }),
  }),
  unfetchable: ({ reason: why, message }) => ({
    kind: 'unfetchable',
    reason: reason(why, 'outcome[reason]'),
    ...(message === undefined ? {} : { message: words(message, 'outcome[message]') }),
  }),
  looked: ({ defaultBranch, branches, files }) => ({
    kind: 'looked',
    defaultBranch: orNull(gitName)(defaultBranch, 'outcome[defaultBranch]'),
    branches: list(most.checked, gitName)(branches, 'outcome[branches]'),
    files: list(most.checked, gitName)(files, 'outcome[files]'),
  }),
  unrunnable: (outcome) => ({ kind: 'unrunnable', reason: reason(outcome.reason, 'outcome[reason]') }),
  exited: ({ status, cache }) => ({
    kind: 'exited',
    status: whole(255)(status, 'outcome[status]'),
    ...(cache === undefined ? {} : { cache: readSavedCache(cache, 'outcome[cache]') }),
  }),
  launch_failed: () => ({ kind: 'launch_failed' }),
  compiled: (outcome) => ({ kind: 'compiled', digest: digest(outcome.digest, 'outcome[digest]') }),
  uncompilable: () => ({ kind: 'uncompilable' }),
  timed_out: () => ({ kind: 'timed_out' }),
  cut_short: (outcome) => ({ kind: 'cut_short', reason: cutReason(outcome.reason, 'outcome[reason]') }),
  killed: (outcome) => ({ kind: 'killed', reason: reason(outcome.reason, 'outcome[reason]') }),
  pushed: () => ({ kind: 'pushed' }),
  refused: () => ({ kind: 'refused' }),
  cancelled: () => ({ kind: 'cancelled' }),
  store_away: () => ({ kind: 'store_away' }),
  lost: ({ message }) => ({ kind: 'lost', message: words(message, 'outcome[message]') }),
};

function readOutcome(value: unknown): Outcome {
  const outcome = group(value, 'outcome');
  const { kind } = outcome;
  if (typeof kind !== 'string' || !Object.hasOwn(details, kind)) return refuse('outcome[kind]');
  return details[kind as Outcome['kind']](outcome);
}

function readConfig(value: unknown): ConfigFile & { before: string | null } {
  const { before, text: content, problem } = group(value, 'outcome[config]');
  const compared = { before: orNull(matching(shaForm))(before, 'outcome[config][before]') };
  if (problem !== undefined) return { ...compared, problem: words(problem, 'outcome[config][problem]') };
  return { ...compared, text: text(mostBytes.configFile)(content, 'outcome[config][text]') };
}

const shaForm = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

const names: Read<string[]> = (value, name) => boundedNames(list(anyLength, gitName)(value, name));
const person: Read<string> = (value, name) => boundedPerson(text(anyLength)(value, name));

function readCommit(value: unknown): CommitReport {
  const commit = group(value, 'outcome[commit]');
  const read = <Name extends keyof CommitReport>(name: Name, how: Read<CommitReport[Name]>): Pick<CommitReport, Name> =>
    ({ [name]: how(commit[name], `outcome[commit][${name}]`) }) as Pick<CommitReport, Name>;
  const date = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
  return {
    ...read('sha', matching(shaForm)),
    ...read('message', (value, of) => boundedMessage(text(anyLength)(value, of))),
    ...read('authorName', person),
    ...read('authorEmail', person),
    ...read('authoredDate', date),
    ...read('committerName', person),
    ...read('committerEmail', person),
    ...read('committedDate', date),
    ...read('branches', names),
    ...read('tags', names),
    ...read('files', names),
    ...read('ref', orNull(gitName)),
    ...read('branch', orNull(gitName)),
    ...read('overwritten', flag),
    ...read('trunk', trunkNews),
    ...read('defaultBranch', (value = null, of) => orNull(gitName)(value, of)),
  };
}
