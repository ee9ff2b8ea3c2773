import type { CacheTree, StepState, SuiteOrder } from '../shared/protocol/index.ts';
import type { StartedFrom, StepEnd } from './kept-builds.ts';
import type { Layers } from './suite-files.ts';

/** A start at a later step than the first (step-starts.ts). */
export interface Start {
  /** The index of the first step to run. */
  at: number;
  layers: Layers;
  added: Readonly<Record<string, string>>;
  hidden: readonly string[];
  /** The cache in the layers. */
  cache: CacheTree | undefined;
  /** The earlier build, or the files that a lost attempt left (step-points.ts). */
  from?: StartedFrom;
  wentOn?: CacheTree;
  /** The states of the steps that the lost attempt did, and what they left. */
  done?: readonly StepState[];
  end?: StepEnd;
}

/** What the build is, and the step that it is to start at. */
export interface Wanted {
  at: number;
  basis: string;
  order: SuiteOrder;
}
