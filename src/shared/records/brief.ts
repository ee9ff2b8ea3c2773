import type { Static } from 'typebox';
import { inputKinds } from '../domain/build-inputs.ts';
import {
  boolean,
  dateTime,
  idWithString,
  integer,
  listOf,
  nullable,
  object,
  record,
  string,
  strings,
  wordOf,
} from './schema.ts';

/** Why a build failed, in few bytes. */
export const briefRecord = record('Brief', {
  step: nullable(object({ name: string, exit_status: nullable(integer) })),
  tests: listOf(
    object({ name: string, class: string, suite: string, file: string, line: nullable(integer), message: string }),
  ),
  lines: listOf(object({ number: integer, text: string, new: boolean })),
  changed: object({
    commits: listOf(object({ ref: string, message: string, scm_author_name: string })),
    files: strings,
    inputs: listOf(object({ kind: wordOf(inputKinds), name: string })),
    variables: strings,
  }),
  seen: object({ count: integer, since: nullable(dateTime), branches: strings }),
  reproduce: string,
  truncated: boolean,
});
export type Brief = Static<typeof briefRecord>;

/** The mark is `+` for a line that only this log has, `-` for one that only the other has, and a blank for both. */
export const logDiffRecord = record('LogDiff', {
  ...idWithString('with_id'),
  hunks: listOf(
    object({
      from: integer,
      with_from: integer,
      lines: listOf(
        object({
          mark: wordOf([' ', '+', '-']),
          number: nullable(integer),
          with_number: nullable(integer),
          text: string,
        }),
      ),
    }),
  ),
  complete: boolean,
});
export type LogDiffView = Static<typeof logDiffRecord>;
