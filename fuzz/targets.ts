import { archiveListings, archives } from './archives.ts';
import { bodies, formFiles, forms } from './bodies.ts';
import { configFiles } from './config-files.ts';
import { fetches } from './fetches.ts';
import { archiveStarts, backups, seekable } from './files.ts';
import { gitObjects } from './git-objects.ts';
import { hookPayloads } from './hook-payloads.ts';
import { imports } from './imports.ts';
import { cacheTrees, imageTrees } from './layers.ts';
import { annotations, seenBefore } from './log-lines.ts';
import { firehose, logs } from './logs.ts';
import { masking, maskingDelay } from './masking.ts';
import { refListings } from './ref-listings.ts';
import { runnerSequences } from './runner-sequences.ts';
import type { Target } from './target.ts';
import { testReports } from './test-reports.ts';
import { commits, keys, progress, publicUrls, rules, urls } from './texts.ts';

/** Everything that is tried. A new one is a file with its property, and a name here. */
export const targets: readonly Target[] = [
  annotations,
  archiveListings,
  archives,
  archiveStarts,
  backups,
  bodies,
  cacheTrees,
  commits,
  configFiles,
  fetches,
  firehose,
  formFiles,
  forms,
  gitObjects,
  hookPayloads,
  imageTrees,
  imports,
  keys,
  logs,
  masking,
  maskingDelay,
  progress,
  publicUrls,
  refListings,
  rules,
  seenBefore,
  runnerSequences,
  seekable,
  testReports,
  urls,
];
