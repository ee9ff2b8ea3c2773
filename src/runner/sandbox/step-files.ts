import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { bytes } from '../../shared/domain/bounds.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';

/**
 * Files in which a step sets variables for later steps, and the build's summary. They are opened before the run and read by descriptor, so a
 * build cannot redirect the reads. In a sandbox they are in memory, because some content is secret.
 */
export interface StepFiles {
  readonly variables: Readonly<Record<string, string>>;
  /** Returns and removes the content. It is null for a file that is too long. */
  take(): Written;
  /** The summary so far, from its beginning. It stays, because every step adds to it. */
  summary(): Buffer;
  close(): void;
}

export interface Written {
  plain: Buffer | null;
  secret: Buffer | null;
}

/** Their paths in a sandbox (mount-helper.pl). */
export const sandboxedStepFiles = ['env', 'secret-env', 'summary'].map((name) => `/dev/shm/headrace/${name}`);

/** `seenAs` are their paths for the build. */
export function openStepFiles(paths: readonly string[], seenAs: readonly string[] = paths): StepFiles {
  const opened = paths.map((path) => openSync(path, constants.O_RDWR)) as [number, number, number];
  const [plain, secret, summary] = opened;
  const [plainPath = '', secretPath = '', summaryPath = ''] = seenAs;
  return {
    variables: {
      HEADRACE_ENV: plainPath,
      HEADRACE_SECRET_ENV: secretPath,
      HEADRACE_SUMMARY: summaryPath,
    } satisfies BuildVariables,
    take: () => ({ plain: takeFrom(plain), secret: takeFrom(secret) }),
    summary: () => readFrom(summary, bytes.summaryRead),
    close: () => opened.forEach((fd) => closeSync(fd)),
  };
}

const nothing = Buffer.alloc(0);

function takeFrom(fd: number): Buffer | null {
  const { size } = fstatSync(fd);
  if (size === 0) return nothing;
  const written = readFrom(fd, bytes.stepEnvironment);
  ftruncateSync(fd);
  return size > bytes.stepEnvironment ? null : written;
}

function readFrom(fd: number, most: number): Buffer {
  const written = Buffer.alloc(Math.min(fstatSync(fd).size, most));
  return written.subarray(0, readSync(fd, written, 0, written.length, 0));
}
