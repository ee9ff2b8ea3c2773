import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createRepository } from '../test/support/repository.ts';
import { startGitHost, type GitHost } from '../test/support/sshd.ts';
import { onBoth, type DatabaseName, type Databases } from './support/databases.ts';
import { processorSeconds } from './support/processor-time.ts';
import type { Figure } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

const projects = 1000;
const intervalSeconds = 60;
const measuredSeconds = 60;

/** The cost of a thousand unchanged repositories on one host that are polled once a minute. */
export async function pollingFigures(databases: Databases): Promise<Figure[]> {
  const host = await startGitHost();
  try {
    const repository = await createRepository(join(host.folder, 'quiet.git'));
    await repository.commit();
    const { sqlite, postgres } = await onBoth(databases, (settings, name) => measure(host, settings, name));
    return [sqlite, postgres];
  } finally {
    await host.close();
  }
}

async function measure(host: GitHost, settings: NodeJS.ProcessEnv, name: DatabaseName): Promise<Figure> {
  const service = await startHeadrace(undefined, { ...settings, HEADRACE_SSH_CONFIG: host.sshConfig });
  try {
    const ids = await createProjects(service, host.url('quiet.git'), (key) => host.authorize(key));
    await untilAll(service, ids, ({ outcome }) => outcome === 'first_poll');
    await untilAll(service, ids, ({ outcome }) => outcome === 'unchanged');
    const logins = host.logins();
    const used = processorSeconds(service.pid);
    await pause(measuredSeconds * 1000);
    const share = (processorSeconds(service.pid) - used) / measuredSeconds;
    return {
      what: `${name}: ${projects} projects, polled every ${intervalSeconds} s, in processors`,
      value: share,
      limit: { atMost: 0.5 },
      from: `${(share * intervalSeconds).toFixed(2)} s of processor time a round, ${host.logins() - logins} new connections`,
    };
  } finally {
    await service.stop();
  }
}

interface Created {
  id_str: string;
  ssh_public_key: string;
}

/** Installs their keys before the first poll. */
async function createProjects(
  service: Service,
  url: string,
  authorize: (key: string) => Promise<void>,
): Promise<string[]> {
  const created: Created[] = [];
  for (let at = 0; at < projects; at += 1) {
    created.push(await call<Created>(service, '/projects', { name: `polled ${at}`, repository_url: url }));
  }
  for (const { ssh_public_key: key } of created) await authorize(key);
  for (const { id_str: id } of created) {
    await call(service, `/projects/${id}`, { poll_interval: String(intervalSeconds) }, 'PUT');
  }
  return created.map(({ id_str: id }) => id);
}

interface Polling {
  outcome: string;
}

async function untilAll(service: Service, ids: readonly string[], isIt: (polling: Polling) => boolean): Promise<void> {
  let left = [...ids];
  for (; left.length > 0; await pause(2000)) {
    const still: string[] = [];
    for (const id of left) {
      // Later projects are not further than this one, so they are not requested.
      if (still.length > 0 || !isIt(await call<Polling>(service, `/projects/${id}/polling`))) still.push(id);
    }
    left = still;
  }
}
