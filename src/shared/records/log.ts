import type { Static } from 'typebox';
import {
  boolean,
  dateTime,
  idWithString,
  integer,
  listOf,
  nullable,
  object,
  wordOf,
  optional,
  record,
  stateOf,
  string,
} from './schema.ts';
import { buildStates } from './states.ts';

export const logRecord = record('Log', {
  offset: integer,
  next_offset: integer,
  size: integer,
  complete: boolean,
  text: string,
});

export const logLinesRecord = record('LogLines', {
  from: integer,
  total: integer,
  complete: boolean,
  lines: listOf(object({ number: integer, offset: integer, at: nullable(integer), text: string })),
});

export const logSearchRecord = record('LogSearch', {
  matches: listOf(object({ number: integer, offset: integer, text: string })),
  complete: boolean,
  next: nullable(integer),
});

/** `first` and `last` are the times of the oldest and the newest build that match. */
export const projectLogSearchRecord = record('ProjectLogSearch', {
  total: integer,
  first: nullable(dateTime),
  last: nullable(dateTime),
  complete: boolean,
  unsearched: optional(
    object({
      last: nullable(dateTime, {
        description: 'The time of the newest build that was not reached; null if the search reached the oldest',
      }),
      builds: listOf(object(idWithString('build_id')), { description: 'builds whose logs could not be read' }),
    }),
  ),
  builds: listOf(
    object({
      ...idWithString('build_id'),
      suite_name: string,
      variant: string,
      build_state: stateOf(buildStates),
      ...idWithString('commit_id'),
      ref: string,
      number: integer,
      text: string,
      created_at: dateTime,
    }),
  ),
});

export type ProjectLogSearch = Static<typeof projectLogSearchRecord>;

export const logViewRecord = record('LogView', {
  from: integer,
  total: integer,
  complete: boolean,
  style: string,
  group: integer,
  lines: listOf(
    object({
      number: integer,
      at: nullable(integer),
      text: string,
      cut: boolean,
      mark: wordOf(['', 'failure', 'stack']),
    }),
  ),
});
export type LogView = Static<typeof logViewRecord>;

/** `failure` is the first line from `from` on that reports a failure; null if none is known. */
export const logOutlineRecord = record('LogOutline', {
  groups: listOf(integer),
  failure: nullable(integer),
  complete: boolean,
});
export type LogOutline = Static<typeof logOutlineRecord>;

export const logMatchesRecord = record('LogMatches', {
  matches: listOf(object({ number: integer, ranges: listOf(integer) })),
  complete: boolean,
  next: nullable(integer),
});

/** An event of a firehose. In a request's stream only builds' events name their record, in a project's all do. */
export const eventRecord = record('Event', {
  event: wordOf(['state', 'log', 'end']),
  id: optional(string),
  state: optional(string),
  offset: optional(integer),
  text: optional(string),
  build_id_str: optional(string),
  type: optional(string),
  id_str: optional(string),
});
export type Event = Static<typeof eventRecord>;
