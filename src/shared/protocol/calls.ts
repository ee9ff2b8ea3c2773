import * as Type from 'typebox';
import type { Static, TSchema, TUnsafe } from 'typebox';
import { bytes, most } from '../domain/bounds.ts';
import { slotKinds } from '../domain/runner-slots.ts';
import { mostShells } from '../domain/shell-limits.ts';
import { pollReport, mostPolls, type PollOrder } from './polls.ts';
import type { Access, Order, RegistryAccess } from './orders.ts';
import { finishReport, serviceName, serviceState, stepState, uploadReport, type Receipt } from './outcomes.ts';
import { bytesOf, claim, cutList, flag, id, listOf, object, oneOf, optional, size, whole } from './schema.ts';
import { shellEnds, type ShellOrder } from './shells.ts';
import { testBatch, type TestReceipt } from './tests.ts';

/** A signal about a claim that is not to go on. */
export type ClaimSignal = 'cancel' | 'gone';

/** How many runners are needed. */
export interface Demand {
  /** How many jobs could begin now, if there were runners with this token and these tags. */
  waiting: number;
  /** How many jobs the runners with this token do at the moment. */
  running: number;
}

interface Call {
  /** What the runner sends with it. Bytes go behind the JSON, in both directions. */
  message: TSchema;
  /** What the server answers, which the runner believes. */
  answer: TSchema;
  /** The largest message; one with claims alone, where nothing else is given. */
  mostBytes?: number;
  /** Whether the answer may take long although there is nothing to do for it. */
  waits?: true;
}

const answer = <T>(): TUnsafe<T> => Type.Unsafe<T>({});
const nothing = answer<void>();
const claims = cutList(most.claims, claim, (list) => [...new Set(list)]);
const underClaim = object({ claim });

/** The largest message with claims alone. */
export const shortMessage = 1024;

/** A timer takes no more. */
const longestHoldMs = 2 ** 31 - 1;
/** No log is longer. */
const furthest = 10 ** 15 - 1;

/** A slot that is free. */
const wish = object({
  /** The name of the claim with which its order is to come. */
  claim,
  /** What the order may be for; everything where it is left out. */
  slot: optional(oneOf(slotKinds)),
  /** How long it waits, if not for ever. */
  holdMs: optional(whole(longestHoldMs)),
  /** The name of the folder in which it keeps files for other suites, if it keeps any. */
  location: optional(claim),
  /** Whether only that is wanted which needs these files: the runner is about to end. */
  isLeaving: optional(flag),
});
export type Wish = Static<typeof wish>;

const logChunk = object({
  claim,
  offset: whole(furthest),
  bytes: bytesOf(0, bytes.logChunk),
  /** The service of the build whose log it is a part of; the build's own where none is named. */
  service: optional(serviceName),
});
export type LogChunk = Static<typeof logChunk>;

/** The tree of a cache of a project. */
const keptTree = object({ project: id, name: id });
export type KeptTree = Static<typeof keptTree>;

/** What a runner calls. A call may be repeated; the repetition changes nothing. */
export const calls = {
  /** The next order; undefined when there was none in the time of the wish, or it was taken back. Throws `DrainedError`. */
  next: { message: wish, answer: answer<Order | undefined>(), waits: true },
  /** Takes wishes back: the runner takes no more. */
  leave: { message: object({ claims }), answer: nothing, mostBytes: bytes.body },
  demand: { message: object({}), answer: answer<Demand>() },
  log: { message: logChunk, answer: answer<Receipt>(), mostBytes: bytes.logChunk + shortMessage },
  /** How far the steps of a build are. */
  steps: {
    message: object({ claim, steps: listOf(most.stepsOfSuite, stepState) }),
    answer: answer<Receipt>(),
    mostBytes: bytes.stepReports,
  },
  /** How far the services of a build are. */
  services: {
    message: object({ claim, services: listOf(most.servicesOfSuite, serviceState) }),
    answer: answer<Receipt>(),
    mostBytes: bytes.serviceReports,
  },
  tests: { message: testBatch, answer: answer<TestReceipt>(), mostBytes: bytes.testReports },
  /** Extends the claims; answers signals about some of them. */
  extend: {
    message: object({ claims }),
    answer: answer<Record<string, ClaimSignal>>(),
    mostBytes: bytes.body,
    waits: true,
  },
  finish: { message: finishReport, answer: answer<Receipt>(), mostBytes: bytes.runnerReport },
  /** Tells what became of the files that waited on the runner. */
  uploaded: { message: uploadReport, answer: answer<Receipt>(), mostBytes: 64 * 1024 },
  /** What opens the repository of this claim's suite; undefined when the claim is not held any more. */
  access: { message: underClaim, answer: answer<Access | undefined>() },
  /**
   * The credentials for the registry of this claim's image, or of one of its services; undefined when the claim is not held
   * any more.
   */
  registry: {
    message: object({ claim, service: optional(serviceName) }),
    answer: answer<RegistryAccess | undefined>(),
  },
  /** The polls that are due, at most this many, as soon as there are some. */
  polls: { message: object({ room: whole(mostPolls) }), answer: answer<PollOrder[]>(), waits: true },
  polled: {
    message: object({ reports: listOf(most.pollReports, pollReport) }),
    answer: nothing,
    mostBytes: bytes.pollReports,
  },
  /** Which of these projects, of which the runner has data, are gone. */
  gone: {
    message: object({ projects: listOf(most.askedAbout, id) }),
    answer: answer<string[]>(),
    mostBytes: 64 * 1024,
  },
  /** Which of these trees, that the runner keeps, no cache has any more. */
  stale: {
    message: object({ trees: listOf(most.askedAbout, keptTree) }),
    answer: answer<KeptTree[]>(),
    mostBytes: 256 * 1024,
  },
  /** Which of the files that it keeps for other suites are gone for the server, and which are still needed. */
  kept: {
    message: object({ location: claim, names: listOf(most.askedAbout, claim) }),
    answer: answer<{ gone: string[]; needed: string[] }>(),
    mostBytes: 256 * 1024,
  },
  /** The shells that were opened in files of this location, besides those that it runs. */
  shells: {
    message: object({ location: claim, running: listOf(mostShells, id), room: whole(mostShells) }),
    answer: answer<ShellOrder[]>(),
    waits: true,
  },
  /** What was typed, from a position on; undefined when the shell is over. */
  shellInput: { message: object({ shell: id, from: size }), answer: answer<Buffer | undefined>(), waits: true },
  /** The position of the person's side, if it is known by now; undefined when the shell is over. */
  shellOutput: {
    message: object({ shell: id, offset: size, bytes: bytesOf(1, bytes.shellOutput) }),
    answer: answer<{ at: number | null } | undefined>(),
    mostBytes: bytes.shellOutput + shortMessage,
    waits: true,
  },
  shellEnd: { message: object({ shell: id, reason: oneOf(shellEnds) }), answer: nothing },
} as const satisfies Record<string, Call>;

export type CallName = keyof typeof calls;
export type Message<Name extends CallName> = Static<(typeof calls)[Name]['message']>;
export type Answer<Name extends CallName> = Static<(typeof calls)[Name]['answer']>;
export const callNames = Object.keys(calls) as CallName[];
