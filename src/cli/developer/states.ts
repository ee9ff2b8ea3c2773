import type { Build } from '../client/operations.ts';
import type { Colour, Painted } from './screen.ts';

export const exitStatus = { passed: 0, failed: 1, wrongUse: 2, errored: 3, cancelled: 4 } as const;

const results: Record<string, number> = {
  passed: exitStatus.passed,
  deployed: exitStatus.passed,
  compiled: exitStatus.passed,
  shared: exitStatus.passed,
  skipped: exitStatus.passed,
  failed: exitStatus.failed,
  timed_out: exitStatus.failed,
  rejected: exitStatus.failed,
  compile_failed: exitStatus.failed,
  errored: exitStatus.errored,
  cancelled: exitStatus.cancelled,
};

export function resultOf(state: string): number | undefined {
  return results[state];
}

export function hasFailed(state: string): boolean {
  return results[state] === exitStatus.failed || results[state] === exitStatus.errored;
}

/** Blank if it did not fail, or has a single step. */
export function failedStep({ steps }: Pick<Build, 'steps'>): string {
  const failed = steps.length > 1 ? steps.find(({ state }) => state === 'failed') : undefined;
  return failed ? `in step ${failed.name}` : '';
}

const colours: Record<number, Colour> = { 0: 'green', 1: 'red', 3: 'red', 4: 'yellow' };

export function colourOf(state: string): Colour {
  if (state === 'skipped') return 'dim';
  return colours[results[state] ?? -1] ?? (isUnderWay(state) ? 'cyan' : 'dim');
}

export function isUnderWay(state: string): boolean {
  return ['running', 'building', 'fetching', 'deploying', 'compiling'].includes(state);
}

export function painted(state: string): Painted {
  return { text: state, colour: colourOf(state) };
}

export function signOf(state: string): string {
  if (state === 'skipped') return '-';
  const result = results[state];
  if (result === undefined) return isUnderWay(state) ? '●' : '·';
  return { 0: '✓', 1: '✗', 3: '!', 4: '-' }[result] ?? '?';
}

export function duration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m${String(seconds % 60).padStart(2, '0')}s`;
  return `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, '0')}m`;
}

export function tookFrom(started: string | null, finished: string | null): string {
  if (started === null) return '';
  return duration((finished === null ? Date.now() : Date.parse(finished)) - Date.parse(started));
}

export function ago(moment: string): string {
  const seconds = Math.max(0, (Date.now() - Date.parse(moment)) / 1000);
  if (seconds < 60) return 'just now';
  const [value, unit] =
    seconds < 3600 ? [seconds / 60, 'minute'] : seconds < 86_400 ? [seconds / 3600, 'hour'] : [seconds / 86_400, 'day'];
  const whole = Math.floor(value);
  return `${whole} ${unit}${whole === 1 ? '' : 's'} ago`;
}
