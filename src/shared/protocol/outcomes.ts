import type { Static } from 'typebox';
import { bytes, longest, most } from '../domain/bounds.ts';
import { runnerInputKinds } from '../domain/build-inputs.ts';
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
  textOfBytes,
  whole,
  message,
} from './schema.ts';

const sha = matching(/^([0-9a-f]{40}|[0-9a-f]{64})$/);
const person = cutText(boundedPerson);
/** ISO 8601 with the person's offset. */
const date = matching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
const names = cutList(Infinity, gitName, boundedNames);

/** The blob stored under the claim. If the files did not change, the blob with which the build began. */
const savedCache = object({
  digest,
  /** The cache that the build began with. */
  began: optional(id),
});
export type SavedCache = Static<typeof savedCache>;

/** The order’s `configFile` and `defaultHead`. The commit was compared with the latter. */
const asked = { path: text(longest.file), before: orNull(sha) };
/** The problem is in words. */
const configFile = eitherOf([
  object({ problem: message, ...asked }),
  object({ text: text(bytes.configFile), ...asked }),
  object({ isAbsent: literal(true), ...asked }),
]);
export type ConfigFile = { text: string } | { problem: string } | { isAbsent: true };

/** In the order of the order's `includes`. The problem is in words, and has nothing of the other repository. */
const included = eitherOf([object({ problem: message }), object({ sha, text: text(bytes.configFile) })]);
export type IncludedText = Static<typeof included>;

/** A file of another CI system on the default branch, or in words why it was not read. */
const workflowFile = eitherOf([
  object({ problem: message, path: gitName }),
  object({ text: text(bytes.configFile), path: gitName }),
]);

/** The files that differ from the order's comparison, and a description of that commit. */
const changes = object({ base: orNull(sha), comparedWith: message, files: names });
export type Changes = Static<typeof changes>;

const commitMetadata = object({
  tree: optional(sha),
  /** The first parent. */
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

const commitReport = object({
  ...commitMetadata.properties,
  sha,
  branches: names,
  tags: names,
  files: names,
  /** The full name of the requested branch or tag. */
  ref: orNull(gitName),
  /** The repository's default branch, if the commit is on it. */
  defaultBranch: optional(orNull(gitName)),
  /** The requested branch, or the likeliest one. */
  branch: orNull(gitName),
  /** The ref was built before at a commit that this one does not descend from. */
  overwritten: flag,
  /** The newest built commit of the default branch: this one, still the order's, or neither is on it. */
  defaultHead: oneOf(['this', 'kept', 'none']),
});
export type CommitReport = Static<typeof commitReport>;
export type DefaultHeadChange = CommitReport['defaultHead'];

/** The merge of the order's `merge`. `commit` describes the head. */
const madeMerge = object({ sha, base: sha, tree: sha });
export type MadeMerge = Static<typeof madeMerge>;

/** The files that cannot be merged; none if the two histories have nothing in common. */
const conflict = object({ head: sha, base: sha, files: names });

export const cutReasons = ['log_too_long', 'disk_full'] as const;
const cutReason = oneOf(cutReasons);
export type CutReason = Static<typeof cutReason>;

const outcome = eitherOf([
  /** `config` if the order names a file. `changes` if they are not the commit's own. */
  object({
    kind: literal('fetched'),
    commit: commitReport,
    config: optional(configFile),
    included: optional(listOf(most.includesOfFile, included)),
    changes: optional(changes),
    merge: optional(madeMerge),
  }),
  /** Something outside must change first. The log has the reason, or the message if there is no log. */
  object({ kind: literal('unfetchable'), reason, message: optional(message), conflict: optional(conflict) }),
  object({
    kind: literal('checked'),
    defaultBranch: orNull(gitName),
    branches: listOf(most.checked, gitName),
    files: listOf(most.checked, gitName),
    workflows: optional(listOf(most.importedFiles + 1, workflowFile)),
  }),
  /** The report has them. */
  object({ kind: literal('inputs') }),
  /** This runner lacks the required isolation. The log has the reason. */
  object({ kind: literal('unrunnable'), reason }),
  object({ kind: literal('exited'), status: whole(255), cache: optional(savedCache) }),
  /** A command that runs before the suite's command failed. The log shows which. */
  object({ kind: literal('launch_failed') }),
  object({ kind: literal('compiled'), digest }),
  /** The stored blob. */
  object({ kind: literal('packed'), digest }),
  /** They are too large, or there is no room. */
  object({ kind: literal('not_packed') }),
  /** The files to begin with or to pack no longer exist. */
  object({
    kind: literal('files_gone'),
    /** The build whose lent files are gone. */
    build: optional(id),
  }),
  /** The archive or its command is unusable. The log has the reason. */
  object({ kind: literal('uncompilable') }),
  object({ kind: literal('timed_out') }),
  /** The build exceeded a limit of the machine, such as memory. */
  object({ kind: literal('killed'), reason }),
  /** The commit is on the remote branch, now or since before. */
  object({ kind: literal('pushed') }),
  /** The commit is not there, and something outside must change first. The log has the reason. */
  object({ kind: literal('refused') }),
  object({ kind: literal('cancelled') }),
  /** No more of its log or result could be stored. */
  object({ kind: literal('cut_short'), reason: cutReason }),
  /** Blob storage cannot take its input or result now. It is retried later. */
  object({ kind: literal('store_away') }),
  /** The runner failed, so the work is retried. `message` is for the operator. */
  object({ kind: literal('lost'), message }),
]);
export type Outcome = Static<typeof outcome>;

/** `gone`: no longer wanted. `size`: the stored bytes of a log that ends here. */
export type Receipt = { taken: true } | { gone: true } | { expected: number } | { refused: CutReason; size: number };

/** In milliseconds since the runner got the order, because the clocks of both sides may differ. */
const spanReport = object({
  /** `checkout`, `software`, `image`, `launch NAME` of a dependency, `command`, `reports` or `artifacts`. */
  name: cutText((name) => name.slice(0, longest.stepName).replaceAll(/\p{Cc}/gu, ' ')),
  from: size,
  to: size,
});
export type SpanReport = Static<typeof spanReport>;

const used = { cpuMs: optional(size), memoryPeak: optional(size) };
/** Of a build with its services. A part is absent if the runner cannot measure it. */
const usage = object({
  ...used,
  diskWritten: optional(size),
  networkReceived: optional(size),
  networkSent: optional(size),
});
export type UsageReport = Static<typeof usage>;

/** Times as above. A step that its build's end interrupts stays `running`. */
export const stepState = object({
  name: text(2 * longest.name),
  state: oneOf(stepStates),
  from: optional(size),
  to: optional(size),
  /** Another attempt ran it, which began so many milliseconds before this one. Its times count from there. */
  earlier: optional(size),
  status: optional(whole(255)),
  /** The number of the first line of its part of the log. */
  line: optional(size),
  ...used,
});
export type StepState = Static<typeof stepState>;

/** A build can go on here on another runner: its steps up to a next one are done. */
export const stepPoint = object({
  claim,
  digest,
  /** The name of the next step. */
  step: text(2 * longest.name),
  /** The states of the steps before it. */
  done: listOf(most.stepsOfSuite, stepState),
  /** Only for runners. */
  facts: textOfBytes(bytes.stepFacts),
});
export type StepPoint = Static<typeof stepPoint>;

export const serviceName = matching(/^[a-z][a-z0-9-]{0,62}$/);
/** Times as above. */
export const serviceState = object({
  name: serviceName,
  state: oneOf(serviceStates),
  from: optional(size),
  ready: optional(size),
  to: optional(size),
  status: optional(whole(255)),
  /** The data that it began with. With `isMade`, the data that it left for others. */
  data: optional(object({ name: id, digest, bytes: size, isMade: flag, hadSecrets: flag })),
});
export type ServiceState = Static<typeof serviceState>;

/** Offsets of its first byte and of the first byte after it. */
const logPart = object({ from: size, to: size });
export type LogPart = Static<typeof logPart>;

const keptFiles = object({
  location: claim,
  name: claim,
  /** 256 bits, as hexadecimal digits. */
  key: digest,
  /** The runner ends after this, so the next suites need the files packed. */
  isLeaving: optional(flag),
});
export type KeptFiles = Static<typeof keptFiles>;

/** Part of what a build stood on. The digest is a plain one. */
const runnerInput = object({ kind: oneOf(runnerInputKinds), name: text(longest.inputName), digest });
export type RunnerInput = Static<typeof runnerInput>;

export const finishReport = object({
  claim,
  outcome,
  logSize: size,
  /** Only if the order has `isTraced`. */
  spans: optional(listOf(most.spans, spanReport)),
  stepStates: optional(listOf(most.stepsOfSuite, stepState)),
  services: optional(listOf(most.servicesOfSuite, serviceState)),
  /** For a shell or for other suites. */
  kept: optional(keptFiles),
  /** Files of the build wait on the runner. They come under the same claim, and *uploaded* ends it. */
  uploads: optional(flag),
  usage: optional(usage),
  /** The part that the suite's commands wrote. The rest is the runner's own. */
  output: optional(logPart),
  inputs: optional(listOf(most.runnerInputs, runnerInput)),
});
export type FinishReport = Static<typeof finishReport>;

export const uploadsLost = ['too_late', 'no_room', 'not_taken', 'runner_gone'] as const;

export const uploadReport = object({
  claim,
  cache: optional(savedCache),
  /** The reason why some of it does not arrive. */
  lost: optional(oneOf(uploadsLost)),
});
export type UploadReport = Static<typeof uploadReport>;
