import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { startHttpsGitHost, type HttpsGitHost } from '../../support/https-git.ts';
import { createRepository, type Repository } from '../../support/repository.ts';
import { workplace, type Workplace } from './workplace.ts';

export const credential = { username: 'headrace', password: 'forge-token-0123456789' };
export const basic = `Basic ${Buffer.from(`${credential.username}:${credential.password}`).toString('base64')}`;

/** git-lfs does not ask a proxy for localhost, so the forge has a name. */
const resolve = async (host: string) => [{ address: host.endsWith('.test') ? '127.0.0.1' : host, family: 4 }];

export interface PlaceAtForge extends Workplace {
  forge: HttpsGitHost;
  app: Repository;
  /** What every request of this project says. */
  own: Workplace['project'];
}

/** A project whose repository is at a forge, over HTTPS. */
export async function placeAtForge(t: TestContext, gitAllow = ['127.0.0.0/8']): Promise<PlaceAtForge> {
  const forge = await startHttpsGitHost({ name: 'forge.test' });
  t.after(() => forge.close());
  const place = await workplace(t, { authorities: forge.ca, gitAllow, rules: { resolve } });
  const app = await createRepository(join(forge.folder, 'team', 'app.git'));
  return { ...place, forge, app, own: { ...place.project, repositoryUrl: forge.url('team/app') } };
}

export const oidOf = (content: string): string => createHash('sha256').update(content).digest('hex');
export const pointerTo = (content: string): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oidOf(content)}\nsize ${content.length}\n`;
