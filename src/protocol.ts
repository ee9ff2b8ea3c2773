import packageJson from '../package.json' with { type: 'json' };

/**
 * What the server and a runner say to each other.
 *
 * A runner has a number of executors, and each lives the same life: it asks for the *next* order and the server holds
 * the request until there is one; it does the work and sends what the work says as *log* chunks; it reports how it
 * ended with *finish*, gets the next order in the answer if one waits, and asks again if none does. Beside them, one request is held while there is work: *extend* names the claims
 * that the runner works on, which is how the server knows that it lives, and is answered at once when one of them, or
 * one that the runner got since, is to be dropped.
 *
 * An order comes with a claim: the right to do this piece of work, until it is finished or lost. Its name is the
 * runner's choice and comes with the request, so that a request whose answer got lost can be made again: what the name
 * was given to already is ordered once more, and nothing is left that the server takes for being worked on. The claim
 * lapses when it was not extended for a while (`claimSeconds`). Then somebody else gets the work, and whatever the first one still
 * sends under its claim is answered with `gone`: it stops, and nothing it did counts.
 *
 * When the server is away, the runner goes on. It keeps the log on its disk within a bound, knocks until the server
 * answers, sends what it kept and then the outcome. A server that comes back gives every claim time to be extended
 * before it lets any lapse.
 *
 * A log chunk carries the offset of its first byte. One that overlaps what is stored is stored from the overlap on; one
 * that leaves a gap is refused with the offset that is expected. So a resend changes nothing and nothing is missing.
 *
 * A log has a limit, which comes with the order: at that length the runner ends the work, and reports it as cut short.
 * The server stores nothing beyond the limit whatever a runner sends, and nothing when its disk is full: it answers why
 * and how much it has, and the runner ends the work likewise. That the log was cut is said in it by the server.
 *
 * What is too large for an order lies with the server as a blob, named by the SHA-256 of its bytes: source archives, and
 * the software that was compiled of them. A runner *reads* blobs from any offset on, so a transfer that broke goes on
 * where it was; it *stores* what it compiled under its claim before it reports the outcome, which names it.
 *
 * A claim opens what its order needs and nothing else, for as long as it is held: the blobs that the order names, the
 * log of its record, and the project's *key*, which a suite's order leaves out because most runners have the commit
 * already. A runner whose token is revoked or replaced is answered 401 at once, also where a request of it is held, and
 * has lost its claims. A message that makes no sense is refused with what is wrong about it; to repeat it would not help.
 *
 * Each names its version with everything it says, in `headrace-version`. Those that are one minor version apart understand
 * each other, so that runners need not be upgraded together with their server; others are refused, and say both versions.
 * So what a version adds to a message, the one before it does without: who reads it takes its absence for what was so
 * before, and what a reader does not know it leaves out. test/dispatch/versions.test.ts has the messages of older ones.
 *
 * A runner keeps what it fetched for the next time. Every few seconds it asks which projects are *gone* of those that it
 * has something of, and removes what it has of these.
 *
 * Beside its executors a runner looks at repositories that are polled. That is short and there is much of it, so it is no
 * work of the queue: one request for *looks* is held and answered with all that are due, as many as the runner has room
 * for, and what was seen is told as *looked*, many at a time. A look is the runner's for `lookSeconds`; who has not told
 * of it by then has lost it, and another one looks.
 *
 * An outcome says what became of the work. That a command failed is an outcome; that the runner could not do its part
 * is one too, of kind `lost`, and leads to another try. Identifiers are texts here, because JSON has no 64 bits.
 */

export const version = packageJson.version;
/** A runner that does not name its version is from before they were named. */
export const unnamedVersion = '0.1.0';

/** Whether programs of these versions understand each other; not where one of them is no version. */
export function understandEachOther(one: string, other: string): boolean {
  const [mine, theirs] = [one, other].map((text) => /^(\d{1,6})\.(\d{1,6})\.\d/.exec(text));
  if (!mine || !theirs) return false;
  return mine[1] === theirs[1] && Math.abs(Number(mine[2]) - Number(theirs[2])) <= 1;
}

/** A claim that is not extended for this long has lapsed. */
export const claimSeconds = 15;
/** How long the server holds a request for the next order, and for a word about claims. */
export const holdSeconds = 5;

/** So many projects are asked about at a time. */
export const mostProjects = 1000;

/** For so long a look is the runner's that got it. */
export const lookSeconds = 120;
/** So long may a look take. */
export const longestLookMs = 45_000;
/** So many are given to a runner at a time. */
export const mostLooks = 64;

export const workKinds = [
  'fetch_commit',
  'run_suite',
  'compile_dependency',
  'push_deploy',
  'check_connection',
] as const;
export type WorkKind = (typeof workKinds)[number];

/** A repository, and whom its work trees belong to. */
export interface Place {
  projectId: string;
  repositoryUrl: string;
}

export interface Source extends Place {
  privateKey: string;
}

export interface FetchOrder {
  kind: 'fetch_commit';
  source: Source;
  commitRef: string;
  /** The full name of the ref that leads to the commit, where `commitRef` is a SHA that somebody was told of with it. */
  fetchRef?: string;
  /** What refs pointed to when they were last built, by their full names. */
  previous: Record<string, string>;
  /** The newest commit of the default branch that was built so far. */
  trunk: string | null;
}

export interface SuiteOrder {
  kind: 'run_suite';
  /** Its key is asked for where the commit has to be fetched. */
  source: Place;
  sha: string;
  command: string;
  environment: Record<string, string>;
  /** What must not be seen in the log. */
  secrets: string[];
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** What stands in the sandbox; of several at one prefix, later ones lie over earlier ones. */
  software: Software[];
  /** The prefixes in the order in which programs and libraries are looked for. */
  prefixes: string[];
  /** What is run before the command, in this order. */
  launches: { name: string; command: string }[];
}

/** Compiled software: a packed directory, and where it belongs. */
export interface Software {
  digest: string;
  prefix: string;
}

export interface CompileOrder {
  kind: 'compile_dependency';
  archive: { digest: string; size: number; kind: string };
  /** The directory inside the archive that the command starts in. */
  source: string;
  command: string;
  prefix: string;
  environment: Record<string, string>;
  /** What it is compiled against. */
  software: Software[];
  prefixes: string[];
  limits: { memoryBytes: number; processes: number; timeoutSeconds: number };
  /** More than this is not unpacked. */
  unpacked: { bytes: number; entries: number };
}

export interface PushOrder {
  kind: 'push_deploy';
  /** Where the commit comes from. Its key opens the target too. */
  source: Source;
  sha: string;
  /** The branch of the source that the commit must lie on. */
  localBranch: string;
  /** Where it goes. */
  remoteUrl: string;
  remoteBranch: string;
  timeoutSeconds: number;
}

/** A look at a repository, for somebody who waits for it: it leaves no log. */
export interface CheckOrder {
  kind: 'check_connection';
  source: Source;
  timeoutMs: number;
}

/** A look at the branches and tags of a repository that is polled. */
export interface LookOrder {
  claim: string;
  source: Source;
  /** Of what was seen there last (lib/ref-listings.ts); null where nothing was. */
  digest: string | null;
  /** So soon somebody will look again, if nothing happens. */
  againAfterMs: number;
}

/** What came of a look: the listing where it is another than before, nothing where it is the same, or why there is none. */
export interface LookReport {
  projectId: string;
  claim: string;
  seen: { listing: string } | { unchanged: true } | { failed: string; message: string };
}

export type Work = FetchOrder | SuiteOrder | CompileOrder | PushOrder | CheckOrder;

export interface Order {
  claim: string;
  work: Work;
  /** Where the log stands: more than 0 when earlier work on the same record left something. */
  logOffset: number;
  /** So long may it become. */
  logLimit: number;
}

/** What a commit says about itself. */
export interface CommitMetadata {
  message: string;
  authorName: string;
  authorEmail: string;
  /** ISO 8601 in the offset that the author had. */
  authoredDate: string;
  committerName: string;
  committerEmail: string;
  committedDate: string;
}

/** A commit, as the repository tells it. */
export interface CommitReport extends CommitMetadata {
  sha: string;
  branches: string[];
  tags: string[];
  files: string[];
  /** The full name of the branch or tag that was asked for. */
  ref: string | null;
  /** The branch that was asked for, or the likeliest one. */
  branch: string | null;
  /** The ref was built before at a commit that this one does not descend from. */
  overwritten: boolean;
  trunk: TrunkNews;
}

/**
 * Which commit of the repository's default branch is the newest that was built: this one; still the one that the order
 * named; or neither of them lies on it.
 */
export type TrunkNews = 'this' | 'kept' | 'none';

export type Outcome =
  | { kind: 'fetched'; commit: CommitReport }
  /** Something outside must change before it can work; the log says what, or the message where there is no log. */
  | { kind: 'unfetchable'; reason: string; message?: string }
  /** What a repository shows to whoever only looks. */
  | { kind: 'looked'; defaultBranch: string | null; branches: string[]; files: string[] }
  /** This runner cannot run it as isolation demands; the log says why. */
  | { kind: 'unrunnable'; reason: string }
  | { kind: 'exited'; status: number }
  /** What has to run before the command did not; the log says which and how. */
  | { kind: 'launch_failed' }
  | { kind: 'compiled'; digest: string }
  /** The archive or its command will not do; the log says why. */
  | { kind: 'uncompilable' }
  | { kind: 'timed_out' }
  /** The build was ended for what it did to the machine, such as using up its memory. */
  | { kind: 'killed'; reason: string }
  /** The commit is on the remote branch, now or since before. */
  | { kind: 'pushed' }
  /** It is not, and something outside must change before it can be; the log says what. */
  | { kind: 'refused' }
  | { kind: 'cancelled' }
  /** It was ended because no more of what it said or made could be kept. */
  | { kind: 'cut_short'; reason: CutReason }
  /** We failed, not the work: it is to be tried again. `message` is for the operator. */
  | { kind: 'lost'; message: string };

/** Why work is ended that could have gone on. */
export type CutReason = 'log_too_long' | 'disk_full';

export interface LogChunk {
  claim: string;
  offset: number;
  bytes: Uint8Array;
}

/**
 * What became of a chunk or an outcome: taken, not wanted any more, out of place, or the end of what is taken of this
 * log, with the size that it has.
 */
export type Receipt = { taken: true } | { gone: true } | { expected: number } | { refused: CutReason; size: number };

export interface FinishReport {
  claim: string;
  outcome: Outcome;
  logSize: number;
  /** The name of the claim for another order, if the runner would take one with the answer. */
  next?: string | undefined;
}

export type Finished = Receipt & { next?: Order };

/** What is to be done about a claim, when it is not simply to go on. */
export type ClaimSignal = 'cancel' | 'gone';

/** The runner's side of the conversation. Every call may be repeated: the second time nothing more happens. */
export interface Link {
  /** The next order, under that claim; undefined when there was none while the server held the request. */
  next(claim: string, signal: AbortSignal): Promise<Order | undefined>;
  log(chunk: LogChunk, signal: AbortSignal): Promise<Receipt>;
  /** Keeps the claims; answers what is to be done about some of them. */
  extend(claims: string[], signal: AbortSignal): Promise<Record<string, ClaimSignal>>;
  finish(report: FinishReport, signal: AbortSignal): Promise<Finished>;
  /** A blob from an offset on, as it comes; undefined when the server has none of that name. */
  read(digest: string, offset: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  store(claim: string, content: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<Stored>;
  /** The private key that opens the repository of a suite that this claim is for; undefined when it is not held any more. */
  key(claim: string, signal: AbortSignal): Promise<string | undefined>;
  /** The looks that are due, so many at most; none when there were none while the server held the request. */
  looks(room: number, signal: AbortSignal): Promise<LookOrder[]>;
  looked(reports: LookReport[], signal: AbortSignal): Promise<void>;
  /** Of these projects, of which the runner keeps something, those that it need not keep anything of any more. */
  gone(projects: string[], signal: AbortSignal): Promise<string[]>;
}

/** What became of a blob: it lies with the server under this name, is not wanted any more, or there is no room for it. */
export type Stored = { digest: string } | { gone: true } | { refused: 'disk_full' };
