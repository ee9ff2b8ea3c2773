import { join } from 'node:path';
import { createRepository } from '../../test/support/repository.ts';
import { startGitHost } from '../../test/support/sshd.ts';
import { call, startHeadrace, type Service } from './servers.ts';

interface Item {
  id_str: string;
  ref: string;
  build_state: string;
}

/** A service with one project, one suite and one commit, to be built over and over. */
export interface Building {
  service: Service;
  /** Builds the commit, once to the end. */
  build(): Promise<void>;
  /** Milliseconds from the request to the first byte of the build's log at an open firehose. */
  firstByte(): Promise<number>;
  /** Asks for so many builds at once; how many are finished in a second. */
  perSecond(many: number): Promise<number>;
  /** Gives the suite a dependency, and takes it away again. */
  attach(dependency: string): Promise<void>;
  detach(dependency: string): Promise<void>;
  stop(): Promise<void>;
}

export async function startBuilding(command: string): Promise<Building> {
  const host = await startGitHost();
  const repository = await createRepository(join(host.folder, 'bench.git'));
  const sha = await repository.commit({ message: 'Measure', files: { README: 'bench\n' } });
  const env = { HEADRACE_SSH_CONFIG: host.sshConfig, HEADRACE_BUILD_NETWORK: 'none', HEADRACE_CONCURRENCY: '2' };
  const service = await startHeadrace(undefined, env);
  const project = await call<Item & { ssh_public_key: string }>(service, '/projects', {
    name: 'bench',
    repository_url: host.url('bench.git'),
  });
  await host.authorize(project.ssh_public_key);
  const path = `/projects/${project.id_str}`;
  const suite = await call<Item>(service, `${path}/suites`, { name: 'bench', command });
  const attached = `${path}/suites/${suite.id_str}/dependencies`;

  const ask = (): Promise<Item> => call<Item>(service, `${path}/build_requests`, { commit_ref: sha });
  const follow = async (stream: string, until: (text: string) => boolean): Promise<void> => {
    const leaving = new AbortController();
    const headers = { authorization: service.authorization };
    const answer = await fetch(`${service.url}${stream}`, { headers, signal: leaving.signal });
    let text = '';
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      if (until(text)) break;
    }
    leaving.abort();
  };
  const end = ({ id_str: id }: Item): Promise<void> =>
    follow(`${path}/build_requests/${id}/firehose`, (text) => text.includes('event: end'));

  return {
    service,
    build: async () => end(await ask()),
    async firstByte() {
      const startedAt = performance.now();
      const request = await ask();
      let taken = 0;
      await follow(`${path}/build_requests/${request.id_str}/firehose`, (text) => {
        if (taken === 0 && /event: log\n.*build_id_str/.test(text)) taken = performance.now() - startedAt;
        return text.includes('event: end');
      });
      return taken;
    },
    async perSecond(many) {
      const startedAt = performance.now();
      const requests = await Promise.all(Array.from({ length: many }, ask));
      await Promise.all(requests.map(end));
      return many / ((performance.now() - startedAt) / 1000);
    },
    async attach(dependency) {
      await call(service, attached, { dependency_id: dependency });
    },
    async detach(dependency) {
      const headers = { authorization: service.authorization };
      await fetch(`${service.url}${attached}/${dependency}`, { method: 'DELETE', headers });
    },
    async stop() {
      await service.stop();
      await host.close();
    },
  };
}
