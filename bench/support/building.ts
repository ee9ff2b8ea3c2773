import { join } from 'node:path';
import { createRepository } from '../../test/support/repository.ts';
import { startGitHost } from '../../test/support/sshd.ts';
import { openConnection } from './load.ts';
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
  /** What is run from now on. */
  command(command: string): Promise<void>;
  /** Asks for so many builds at once; how many are finished in a second. */
  perSecond(many: number): Promise<number>;
  /** Gives the suite a dependency, and takes it away again. */
  attach(dependency: string): Promise<void>;
  detach(dependency: string): Promise<void>;
  stop(): Promise<void>;
}

/** A line that tells of the end of a build request. */
const isOver = /"state":"(passed|failed|errored)","type":"build_request"/;

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

  let asked = 0;
  const body = (): string => `commit_ref=${sha}`;
  const ask = (): Promise<Item> => {
    asked += 1;
    return call<Item>(service, `${path}/build_requests`, { commit_ref: sha });
  };
  /** Reads a stream to its end, after which the connection serves the next request. */
  const follow = async ({ id_str: id }: Item, hear: (text: string) => void = () => {}): Promise<void> => {
    const headers = { authorization: service.authorization };
    const answer = await fetch(`${service.url}${path}/build_requests/${id}/firehose`, { headers });
    let text = '';
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      hear(text);
    }
  };

  /** Reads all that happened in the project, from the beginning, until so many requests are over. */
  const untilOver = async (many: number): Promise<void> => {
    const leaving = new AbortController();
    const headers = { authorization: service.authorization, accept: 'application/x-ndjson' };
    const answer = await fetch(`${service.url}${path}/firehose?offset=0`, { headers, signal: leaving.signal });
    let over = 0;
    let rest = '';
    for await (const chunk of answer.body ?? []) {
      const lines = (rest + Buffer.from(chunk as Uint8Array).toString()).split('\n');
      rest = lines.pop() ?? '';
      over += lines.filter((line) => isOver.test(line)).length;
      if (over === many) break;
    }
    leaving.abort();
  };

  return {
    service,
    build: async () => follow(await ask()),
    async firstByte() {
      const startedAt = performance.now();
      let taken = 0;
      await follow(await ask(), (text) => {
        if (taken === 0 && /event: log\n.*build_id_str/.test(text)) taken = performance.now() - startedAt;
      });
      return taken;
    },
    command: (next) => call(service, `${path}/suites/${suite.id_str}`, { command: next }, 'PUT'),
    async perSecond(many) {
      const expected = asked + many;
      const startedAt = performance.now();
      // Few connections ask and one stream tells of all: what the load costs is missing to the service.
      const headers = {
        authorization: service.authorization,
        'content-type': 'application/x-www-form-urlencoded',
      };
      const target = { url: `${service.url}${path}/build_requests`, method: 'POST' as const, headers, body };
      asked += many;
      const asking = Array.from({ length: 4 }, async (_, asker) => {
        using connection = await openConnection(target);
        for (let turn = asker; turn < many; turn += 4) await connection.ask();
      });
      await Promise.all([...asking, untilOver(expected)]);
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
