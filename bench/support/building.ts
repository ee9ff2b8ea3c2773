import { openConnection } from './load.ts';
import { startProject } from './project.ts';
import { call, type Service } from './servers.ts';

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
  const project = await startProject({ files: { README: 'bench\n' } });
  const { service, path, sha } = project;
  await project.command(command);
  const attached = `${project.suite}/dependencies`;

  let asked = 1; // the project was built once to begin with
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
    command: (next) => project.command(next),
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
    stop: () => project.stop(),
  };
}
