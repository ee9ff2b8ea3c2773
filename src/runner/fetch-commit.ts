import type { FetchOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import { MergeConflict } from './git/merge.ts';
import { readIncluded } from './included-files.ts';
import type { JobRunner } from './job-runner.ts';

/** A problem that the user can fix is an outcome; the log explains it. */
export const fetchCommit: JobRunner<FetchOrder> = async ({ mirrors }, order, { writeLog, signal }) => {
  const {
    source,
    commitRef,
    fetchRef = '',
    previous,
    defaultHead,
    compare,
    configFile = '',
    includes = [],
    merge,
  } = order;
  try {
    const {
      filesTruncated: _,
      refKind: __,
      config,
      changes,
      merge: merged,
      ...commit
    } = await mirrors.fetch({
      ...source,
      commitRef,
      fetchRef,
      previous,
      defaultHead,
      compare,
      ...(configFile !== '' && { configFile }),
      ...(merge && { merge }),
      writeLog,
      signal,
    });
    const included = config && 'text' in config ? await readIncluded(mirrors, includes, signal) : [];
    return {
      kind: 'fetched',
      commit,
      ...(config && { config: { ...config, path: configFile, before: defaultHead } }),
      ...(included.length > 0 && { included }),
      ...(changes && { changes }),
      ...(merged && { merge: merged }),
    };
  } catch (error) {
    if (error instanceof MergeConflict) {
      const { kind: reason, merge: conflict, files } = error;
      return { kind: 'unfetchable', reason, conflict: { ...conflict, files: [...files] } };
    }
    if (error instanceof FetchError) return { kind: 'unfetchable', reason: error.kind };
    throw error;
  }
};
