import type { FetchOrder } from '../shared/protocol/index.ts';
import { FetchError } from './git/failures.ts';
import { readIncluded } from './included-files.ts';
import type { JobRunner } from './job-runner.ts';

/** A problem that the user can fix is an outcome; the log explains it. */
export const fetchCommit: JobRunner<FetchOrder> = async ({ mirrors }, order, { writeLog, signal }) => {
  const { source, commitRef, fetchRef = '', previous, defaultHead, compare, configFile = '', includes = [] } = order;
  try {
    const {
      filesTruncated: _,
      refKind: __,
      config,
      changes,
      ...commit
    } = await mirrors.fetch({
      ...source,
      commitRef,
      fetchRef,
      previous,
      defaultHead,
      compare,
      ...(configFile !== '' && { configFile }),
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
    };
  } catch (error) {
    if (error instanceof FetchError) return { kind: 'unfetchable', reason: error.kind };
    throw error;
  }
};
