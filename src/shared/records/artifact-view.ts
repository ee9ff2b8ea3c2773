import type { Static } from 'typebox';
import { testStates } from './states.ts';
import { boolean, integer, listOf, nullable, object, ownId, record, string, wordOf } from './schema.ts';

export const artifactKinds = ['text', 'picture', 'pdf', 'page', 'tests', 'other'] as const;
export type ArtifactKind = (typeof artifactKinds)[number];

/** For the page of an artifact. `address` is where its scripts may run; blank if there is no such place. */
export const artifactViewRecord = record('ArtifactView', {
  ...ownId,
  path: string,
  size: integer,
  kind: wordOf(artifactKinds),
  address: string,
  text: nullable(
    object({
      from: integer,
      total: integer,
      complete: boolean,
      lines: listOf(object({ number: integer, text: string, cut: boolean })),
    }),
  ),
  tests: nullable(
    object({
      passed: integer,
      failed: integer,
      skipped: integer,
      problem: string,
      listed: listOf(
        object({
          name: string,
          class: string,
          suite: string,
          file: string,
          state: wordOf(testStates),
          duration_ms: integer,
          message: string,
        }),
      ),
    }),
  ),
});
export type ArtifactView = Static<typeof artifactViewRecord>;

/** A folder with an `index.html`, which is the artifact with this ID. `path` ends with a slash, or is blank. */
export const artifactSiteRecord = record('ArtifactSite', { ...ownId, path: string });
