import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';
import { bytes } from '../../shared/domain/bounds.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';

/**
 * Files in which a step sets variables for later steps. They are opened before the run and read by descriptor, so a
 * build cannot redirect the reads. In a sandbox they are in memory, because some content is secret.
 */
export interface StepFiles {
  readonly variables: Readonly<Record<string, string>>;
  /** Returns and removes the content. It is null for a file that is too long. */
  take(): Written;
  close(): void;
}

export interface Written {
  plain: Buffer | null;
  secret: Buffer | null;
}

/** Their paths in a sandbox (mount-helper.pl). */
export const sandboxedStepFiles = ['/dev/shm/headrace/env', '/dev/shm/headrace/secret-env'];

/** `seenAs` are their paths for the build. */
export function openStepFiles(paths: readonly string[], seenAs: readonly string[] = paths): StepFiles {
  const [plain, secret] = paths.map((path) => openSync(path, constants.O_RDWR)) as [number, number];
  const [plainPath = '', secretPath = ''] = seenAs;
  return {
    variables: { HEADRACE_ENV: plainPath, HEADRACE_SECRET_ENV: secretPath } satisfies BuildVariables,
    take: () => ({ plain: takeFrom(plain), secret: takeFrom(secret) }),
    close: () => [plain, secret].forEach((fd) => closeSync(fd)),
  };
}

const nothing = Buffer.alloc(0);

function takeFrom(fd: number): Buffer | null {
  const { size } = fstatSync(fd);
  if (size === 0) return nothing;
  const written = Buffer.alloc(Math.min(size, bytes.stepEnvironment));
  const length = readSync(fd, written, 0, written.length, 0);
  ftruncateSync(fd);
  return size > bytes.stepEnvironment ? null : written.subarray(0, length);
}
