import type { Static } from 'typebox';
import { bytes, longest, most } from '../domain/bounds.ts';
import { boundedMessage, boundedNames, boundedPerson } from '../domain/commit-bounds.ts';
import { serviceStates } from '../domain/service-states.ts';
import { stepStates } from '../domain/step-states.ts';
import {
  claim,
  cutList,
  cutText,
  digest,
  eitherOf,
  flag,
  gitName,
  id,
  listOf,
  literal,
  matching,
  object,
  oneOf,
  optional,
  orNull,
  reason,
  size,
  text,
  whole,
  message,
} from './schema.ts';

const sha = matching(/^([0-9a-f]{40}|[0-9a-f]{64})$/);
const person = cutText(boundedPerson);
/** ISO 8601 with the person's offset. */
const date = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
const names = cutList(Infinity, gitName, boundedNames);

/**
 * The cache that a build leaves: the blob that was stored under its claim. If the build has written the same files again,
 * it is the blob of the cache that the build began with.
 */
const savedCache = object({
  digest,
  /** The cache that the build began with. */
  began: optional(id),
});
export type SavedCache = Static<typeof savedCache>;

/** The order’s `configFile`, and its `defaultHead`, which the commit was compared with. */
const asked = { path: text(longest.file), before: orNull(sha) };
/** The file that configures a project, or what is wrong with it, in words. */
const configFile = eitherOf([
  object({ problem: message, ...asked }),
  object({ text: text(bytes.configFile), ...asked }),
  object({ isAbsent: literal(true), ...asked }),
]);
export type ConfigFile = { text: string } | { problem: string } | { isAbsent: true };

/** The files by which a commit differs from another one that the order asks for, and what that one is, in words. */
const changes = object({ base: orNull(sha), comparedWith: message, files: names });
export type Changes = Static<typeof changes>;

const commitMetadata = object({
  /** Its first parent. */
  parent: optional(sha),
  message: cutText(boundedMessage),
  authorName: person,
  authorEmail: person,
  authoredDate: date,
  committerName: person,
  committerEmail: person,
  committedDate: date,
});
export type CommitMetadata = Static<typeof commitMetadata>;

/** A commit of the repository. */
const commitReport = object({
  ...commitMetadata.properties,
  sha,
  branches: names,
  tags: names,
  files: names,
  /** The full name of the requested branch or tag. */
  ref: orNull(gitName),
  /** The repository's default branch, where the commit is on it. */
  defaultBranch: optional(orNull(gitName)),
  /** The requested branch, or the likeliest one. */
  branch: orNull(gitName),
  /** The ref was built before at a commit that this one does not descend from. */
  overwritten: flag,
  /**
   * Which commit is the newest built one of the repository's default branch: this one; still the one in the order; or
   * neither of them is on that branch.
   */
  defaultHead: oneOf(['this', 'kept', 'none']),
});
export type CommitReport = Static<typeof commitReport>;
export type DefaultHeadChange = CommitReport['defaultHead'];

/** Why work was ended early. */
export const cutReasons = ['log_too_long', 'disk_full'] as const;
const cutReason = oneOf(cutReasons);
export type CutReason = Static<typeof cutReason>;

const outcome = eitherOf([
  /** `config` where the order names a file; `changes` where they are not the commit's own. */
  object({ kind: literal('fetched'), commit: commitReport, config: optional(configFile), changes: optional(changes) }),
  /** It cannot work before something outside changes; the log says what, or the message where there is no log. */
  object({ kind: literal('unfetchable'), reason, message: optional(message) }),
  /** The result of a check of a repository. */
  object({
    kind: literal('checked'),
    defaultBranch: orNull(gitName),
    branches: listOf(most.checked, gitName),
    files: listOf(most.checked, gitName),
  }),
  /** This runner cannot run it with the required isolation; the log says why. */
  object({ kind: literal('unrunnable'), reason }),
  object({ kind: literal('exited'), status: whole(255), cache: optional(savedCache) }),
  /** A command that has to run before the suite's command failed; the log says which and how. */
  object({ kind: literal('launch_failed') }),
  object({ kind: literal('compiled'), digest }),
  /** The files of a build, as the blob that was stored. */
  object({ kind: literal('packed'), digest }),
  /** They cannot be packed: they are too large, or there is no room. */
  object({ kind: literal('not_packed') }),
  /** The files of a build that this one was to begin with, or that were to be packed, are not there any more. */
  object({ kind: literal('files_gone') }),
  /** The archive or its command is unusable; the log says why. */
  object({ kind: literal('uncompilable') }),
  object({ kind: literal('timed_out') }),
  /** The build was ended because it exceeded a limit of the machine, such as memory. */
  object({ kind: literal('killed'), reason }),
  /** The commit is on the remote branch, now or since before. */
  object({ kind: literal('pushed') }),
  /** The commit is not there, and something outside must change first; the log says what. */
  object({ kind: literal('refused') }),
  object({ kind: literal('cancelled') }),
  /** It was ended because no more of its log or result could be stored. */
  object({ kind: literal('cut_short'), reason: cutReason }),
  /** What it needs, or what it made, cannot pass through the store of the blobs now: it is tried again in a while. */
  object({ kind: literal('store_away') }),
  /** The runner failed, not the work: it is tried again. `message` is for the operator. */
  object({ kind: literal('lost'), message }),
]);
export type Outcome = Static<typeof outcome>;

/**
 * The answer to a chunk or an outcome: taken, not wanted any more, at a wrong offset, or the end of this log, with its
 * stored size.
 */
export type Receipt = { taken: true } | { gone: true } | { expected: number } | { refused: CutReason; size: number };

/** A part of the work, in milliseconds since the runner got the order: the clocks of both sides may be apart. */
const stepReport = object({
  /**
   * `checkout`, `software`, `image`, `launch NAME` for the launch command of a dependency, `command`, `reports` or
   * `artifacts`.
   */
  name: cutText((name) => name.slice(0, longest.stepName).replaceAll(/\p{Cc}/gu, ' ')),
  from: size,
  to: size,
});
export type StepReport = Static<typeof stepReport>;

/** How far a step of a suite is; times as above. One that the end of its build interrupts stays `running`. */
export const stepState = object({
  name: text(2 * longest.name),
  state: oneOf(stepStates),
  from: optional(size),
  to: optional(size),
  status: optional(whole(255)),
  /** The number of the first line of its part of the log. */
  line: optional(size),
});
export type StepState = Static<typeof stepState>;

export const serviceName = matching(/^[a-z][a-z0-9-]{0,62}$/);
/** How far a service of a build is; times as above. */
export const serviceState = object({
  name: serviceName,
  state: oneOf(serviceStates),
  from: optional(size),
  ready: optional(size),
  to: optional(size),
  status: optional(whole(255)),
  /** The data that it has begun with, or, where they are made, has left for others. */
  data: optional(object({ name: id, digest, bytes: size, isMade: flag, hadSecrets: flag })),
});
export type ServiceState = Static<typeof serviceState>;

/** A part of a log, by the offset of its first byte and of the first one behind it. */
const logPart = object({ from: size, to: size });
export type LogPart = Static<typeof logPart>;

const keptFiles = object({
  location: claim,
  name: claim,
  /** 256 bits, as hexadecimal digits. */
  key: digest,
  /** Whether the runner ends after this: who is to begin with them needs them packed. */
  isLeaving: optional(flag),
});
export type KeptFiles = Static<typeof keptFiles>;

export const finishReport = object({
  claim,
  outcome,
  logSize: size,
  /** When the parts of the work began and ended, where the order asks for it. */
  steps: optional(listOf(most.steps, stepReport)),
  /** How the steps of a suite ended. */
  stepStates: optional(listOf(most.stepsOfSuite, stepState)),
  /** What became of its services. */
  services: optional(listOf(most.servicesOfSuite, serviceState)),
  /** Where the files of the build are kept, for a shell or for other suites. */
  kept: optional(keptFiles),
  /** Whether files of the build wait on the runner: they are brought under the same claim, and *uploaded* ends it. */
  uploads: optional(flag),
  /** What the commands of a suite wrote of the log; the rest is the runner's own. */
  output: optional(logPart),
});
export type FinishReport = Static<typeof finishReport>;

/** Why files that waited on a runner never arrive. */
export const uploadsLost = ['too_late', 'no_room', 'not_taken', 'runner_gone'] as const;

/** What became of the files of a build that waited on its runner. */
export const uploadReport = object({
  claim,
  cache: optional(savedCache),
  /** Why some of it does not arrive. */
  lost: optional(oneOf(uploadsLost)),
});
export type UploadReport = Static<typeof uploadReport>;
