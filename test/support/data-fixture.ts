import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../src/shared/lib/processes.ts';
import type { Credentials } from './client.ts';

const fixtures = join(import.meta.dirname, '../fixtures');

/** The notes of scripts/make-data-fixture.ts about what it made. */
export interface Noted extends Credentials {
  version: string;
  project: { id: string; suite: string; public_key: string; secret: string };
  projects: string[];
  suites: string[];
  builds: { id: string; suite: string; state: string; log: string; artifacts: [id: string, path: string][] }[];
}

/** The data folder and the backup that a released version left, unpacked. */
export async function unpackFixture(
  version: string,
  into: string,
): Promise<{ data: string; backup: string; noted: Noted }> {
  mkdirSync(into, { recursive: true });
  const file = join(fixtures, `data-${version}.tar.gz`);
  const { status, stderr } = await run('tar', ['-C', into, '--no-same-owner', '-xzf', file]);
  if (status !== 0) throw new Error(stderr.toString());
  const noted = JSON.parse(readFileSync(join(into, 'noted.json'), 'utf8')) as Noted;
  return { data: join(into, 'data'), backup: join(into, 'backup'), noted };
}
