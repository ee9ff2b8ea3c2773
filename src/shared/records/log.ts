import type { Static } from 'typebox';
import { boolean, integer, listOf, nullable, object, wordOf, optional, record, string } from './schema.ts';

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
