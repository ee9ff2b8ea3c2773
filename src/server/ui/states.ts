import type { IconName } from './assets.ts';
import { html, type Html } from './html.ts';
import { isAllowedFailure } from '../lifecycle/rollup.ts';
import type { BuildState } from '../lifecycle/states.ts';

/** Each look has a shape and a word in addition to its colour. */

export type Look = 'good' | 'bad' | 'warn' | 'busy' | 'wait' | 'held' | 'none';

const looks: Record<string, Look> = {
  passed: 'good',
  deployed: 'good',
  compiled: 'good',
  shared: 'good',
  delivered: 'good',
  failed: 'bad',
  rejected: 'bad',
  compile_failed: 'bad',
  errored: 'warn',
  timed_out: 'warn',
  running: 'busy',
  building: 'busy',
  starting: 'busy',
  preparing: 'busy',
  fetching: 'busy',
  deploying: 'busy',
  compiling: 'busy',
  enqueued: 'wait',
  enqueued_for_compile: 'wait',
  waiting_for_builds: 'wait',
  waiting_archive_upload: 'wait',
  pending: 'wait',
  waiting_for_approval: 'held',
  build_requested: 'good',
  refused: 'bad',
  connected: 'good',
  ready: 'good',
  unreachable: 'warn',
  // Of runners.
  idle: 'good',
  busy: 'busy',
  away: 'warn',
  failing: 'bad',
  incomplete: 'bad',
};

const words: Record<string, string> = {
  enqueued_for_compile: 'waiting to be compiled',
  enqueued: 'waiting',
  waiting_for_builds: 'waiting',
  waiting_archive_upload: 'waiting for its source',
};

/** Paths in a square of 16. */
export const shapes: Record<Look, string> = {
  good: 'M3.5 8.5l3 3 6-7',
  bad: 'M4 4l8 8M12 4l-8 8',
  warn: 'M8 3.5v5.5M8 12.2v.3',
  busy: 'M8 3a5 5 0 1 1-5 5',
  wait: 'M5 8h.1M8 8h.1M11 8h.1',
  held: 'M6 4.5v7M10 4.5v7',
  none: 'M4.5 8h7',
};

export function lookOf(state: string): Look {
  return looks[state] ?? 'none';
}

export function stateWord(state: string): string {
  return words[state] ?? state.replaceAll('_', ' ');
}

export function isUnderWay(state: string): boolean {
  return ['busy', 'wait', 'held'].includes(lookOf(state));
}

function shape(look: Look): Html {
  return html`<svg viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d="${shapes[look]}" /></svg>`;
}

export function stateBadge(state: string): Html {
  return badge(lookOf(state), stateWord(state));
}

function badge(look: Look, word: string): Html {
  return html`<span class="state ${look}">${shape(look)}${word}</span>`;
}

/** Leads to what the words are about. */
export function stateLink(look: Look, words: string, href: string): Html {
  return html`<a class="state ${look}" href="${href}">${shape(look)}${words}</a>`;
}

/** A mark with the state in its accessible name. */
export function stateMark(state: string, about: string, href?: string): Html {
  return mark(lookOf(state), `${about}: ${stateWord(state)}`, href);
}

interface ShownBuild {
  build_state: string;
  /** A boolean from the API, or 0 or 1 from the database. */
  allow_failure: boolean | number;
}

/** An allowed failure does not fail the commit. */
export function lookOfBuild(build: ShownBuild): Look {
  const look = lookOf(build.build_state);
  return isAllowed(build) && look === 'bad' ? 'warn' : look;
}

export function buildWord(build: ShownBuild): string {
  return isAllowed(build) ? `${stateWord(build.build_state)}, allowed` : stateWord(build.build_state);
}

function isAllowed({ build_state: state, allow_failure: mayFail }: ShownBuild): boolean {
  return isAllowedFailure(state as BuildState, Boolean(mayFail));
}

export function buildBadge(build: ShownBuild): Html {
  return badge(lookOfBuild(build), buildWord(build));
}

export function buildMark(build: ShownBuild, about: string, href?: string): Html {
  return mark(lookOfBuild(build), `${about}: ${buildWord(build)}`, href);
}

function mark(look: Look, name: string, href?: string): Html {
  return href === undefined
    ? html`<span class="mark ${look}" role="img" aria-label="${name}" title="${name}">${shape(look)}</span>`
    : html`<a class="mark ${look}" href="${href}" aria-label="${name}" title="${name}">${shape(look)}</a>`;
}

const icons: Record<Look, IconName> = {
  good: 'good',
  bad: 'bad',
  warn: 'bad',
  busy: 'busy',
  wait: 'busy',
  held: 'idle',
  none: 'idle',
};

export function iconFor(state: string | undefined): IconName {
  return state === undefined ? 'plain' : icons[lookOf(state)];
}
