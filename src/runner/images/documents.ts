import { readUntrustedJson } from '../../shared/lib/untrusted-json.ts';
import { CannotRunError } from '../cannot-run.ts';

export const mostBytesOfDocument = 4 * 1024 * 1024;

/** This machine's architecture, as images name it. */
export const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch as string] ?? process.arch;

export function json(bytes: Uint8Array): unknown {
  try {
    return readUntrustedJson(Buffer.from(bytes).toString());
  } catch {
    throw invalid('its description is not JSON that can be read');
  }
}

export function group(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid('its description is malformed');
  return value as Record<string, unknown>;
}

export function invalid(why: string): CannotRunError {
  return new CannotRunError('image_invalid', `The image cannot be used: ${why}.`);
}

export function wrongArchitecture(what: string): CannotRunError {
  return new CannotRunError(
    'image_wrong_architecture',
    `The image is for another kind of machine: ${what.slice(0, 100)}, and this runner is linux/${architecture}.`,
  );
}
