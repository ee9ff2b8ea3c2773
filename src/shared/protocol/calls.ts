import * as Type from 'typebox';
import type { Static, TSchema, TUnsafe } from 'typebox';
import { bytes, most } from '../domain/bounds.ts';
import { slotKinds } from '../domain/runner-slots.ts';
import { mostShells } from '../domain/shell-limits.ts';
import { pollReport, mostPolls, type PollOrder } from './polls.ts';
import type { Access, Order, RegistryAccess } from './orders.ts';
import {
  finishReport,
  serviceName,
  serviceState,
  stepPoint,
  stepState,
  uploadReport,
  type Receipt,
} from './outcomes.ts';
import { bytesOf, claim, cutList, flag, id, listOf, object, oneOf, optional, textOfBytes, whole } from './schema.ts';
import { shellEnds, type ShellOrder } from './shells.ts';
import { testBatch, type SummaryReceipt, type TestReceipt } from './tests.ts';

export type ClaimSignal = 'cancel' | 'gone';

export interface Demand {
  /** Jobs that could begin now on a runner with this token and these tags. */
  waiting: number;
  /** Jobs of the runners with this token at the moment, without fetches. */
  running: number;
}

interface Call {
  /** Bytes follow the JSON, in both directions. */
  message: TSchema;
  /** Not checked: the runner trusts its server. */
  answer: TSchema;
  /** The default is `shortMessage`. */
  mostBytes?: number;
  /** The answer may wait a long time, without work for the server. */
  waits?: true;
}

const answer = <T>(): TUnsafe<T> => Type.Unsafe<T>({});
const nothing = answer<void>();
const claims = cutList(most.claims, claim, (list) => [...new Set(list)]);
const underClaim = object({ claim });

export const shortMessage = 1024;

/** The longest delay of a timer. */
const longestHoldMs = 2 ** 31 - 1;
const furthest = 10 ** 15 - 1;

const wish = object({
  /** The runner's name for the claim with which the order comes. */
  claim,
  /** Without it, the order may be for any slot. */
  slot: optional(oneOf(slotKinds)),
  /** Without it, the wish has no time limit. */
  holdMs: optional(whole(longestHoldMs)),
  /** The folder in which the runner keeps files for other suites, if it keeps any. */
  location: optional(claim),
  /** The runner is about to end, so it wants only work that needs these files. */
  isLeaving: optional(flag),
});
export type Wish = Static<typeof wish>;

const logChunk = object({
  claim,
  offset: whole(furthest),
  bytes: bytesOf(0, bytes.logChunk),
  /** Without it, the chunk belongs to the build's own log. */
  service: optional(serviceName),
});
export type LogChunk = Static<typeof logChunk>;

const keptTree = object({ project: id, name: id });
export type KeptTree = Static<typeof keptTree>;

/** Every call may be repeated: the repetition changes nothing. */
export const calls = {
  /** Undefined if no work came in the wish's time, or the wish was withdrawn. Throws `DrainedError`. */
  next: { message: wish, answer: answer<Order | undefined>(), waits: true },
  /** Withdraws wishes: the runner no longer takes orders for them. */
  leave: { message: object({ claims }), answer: nothing, mostBytes: bytes.body },
  demand: { message: object({}), answer: answer<Demand>() },
  log: { message: logChunk, answer: answer<Receipt>(), mostBytes: bytes.logChunk + shortMessage },
  steps: {
    message: object({ claim, steps: listOf(most.stepsOfSuite, stepState) }),
    answer: answer<Receipt>(),
    mostBytes: bytes.stepReports,
  },
  /** The files are the blob stored under the claim, or those of the build's point before. */
  stepPoint: { message: stepPoint, answer: answer<Receipt>(), mostBytes: bytes.stepPoint },
  services: {
    message: object({ claim, services: listOf(most.servicesOfSuite, serviceState) }),
    answer: answer<Receipt>(),
    mostBytes: bytes.serviceReports,
  },
  tests: { message: testBatch, answer: answer<TestReceipt>(), mostBytes: bytes.testReports },
  summary: {
    message: object({ claim, markdown: textOfBytes(bytes.summary) }),
    answer: answer<SummaryReceipt>(),
    mostBytes: bytes.summaryReport,
  },
  /** Extends the claims. The answer has signals about some of them. */
  extend: {
    message: object({ claims }),
    answer: answer<Record<string, ClaimSignal>>(),
    mostBytes: bytes.body,
    waits: true,
  },
  finish: { message: finishReport, answer: answer<Receipt>(), mostBytes: bytes.runnerReport },
  uploaded: { message: uploadReport, answer: answer<Receipt>(), mostBytes: 64 * 1024 },
  /** Undefined if the claim is no longer held. */
  access: { message: underClaim, answer: answer<Access | undefined>() },
  /** For the registry of the claim's image or of a service's. Undefined if the claim is no longer held. */
  registry: {
    message: object({ claim, service: optional(serviceName) }),
    answer: answer<RegistryAccess | undefined>(),
  },
  /** Answered with the polls that are due, as soon as there are some. */
  polls: { message: object({ room: whole(mostPolls) }), answer: answer<PollOrder[]>(), waits: true },
  polled: {
    message: object({ reports: listOf(most.pollReports, pollReport) }),
    answer: nothing,
    mostBytes: bytes.pollReports,
  },
  /** Asks which of these projects no longer exist. The runner has data of them. */
  gone: {
    message: object({ projects: listOf(most.askedAbout, id) }),
    answer: answer<string[]>(),
    mostBytes: 64 * 1024,
  },
  /** Asks which of these trees are no longer in any cache. */
  stale: {
    message: object({ trees: listOf(most.askedAbout, keptTree) }),
    answer: answer<KeptTree[]>(),
    mostBytes: 256 * 1024,
  },
  /** Asks which of these kept files are gone, and which are still needed. */
  kept: {
    message: object({ location: claim, names: listOf(most.askedAbout, claim) }),
    answer: answer<{ gone: string[]; needed: string[] }>(),
    mostBytes: 256 * 1024,
  },
  /** New shells in files of this location. */
  shells: {
    message: object({ location: claim, running: listOf(mostShells, id), room: whole(mostShells) }),
    answer: answer<ShellOrder[]>(),
    waits: true,
  },
  shellEnd: { message: object({ shell: id, reason: oneOf(shellEnds) }), answer: nothing },
} as const satisfies Record<string, Call>;

export type CallName = keyof typeof calls;
export type Message<Name extends CallName> = Static<(typeof calls)[Name]['message']>;
export type Answer<Name extends CallName> = Static<(typeof calls)[Name]['answer']>;
export const callNames = Object.keys(calls) as CallName[];
