import { follow, untilSaid } from './follow.ts';
import { openConnection } from './load.ts';
import { startProject } from './project.ts';
import { call, residentMegabytes, type Service } from './servers.ts';

interface Item {
  id_str: string;
  ref: string;
  build_state: string;
}

/** A service with one project, one suite and one commit, to be built over and over. */
export interface Building {
  service: Service;
  /** Builds the commit once and waits for the end. With suites, only these. */
  build(...suites: string[]): Promise<void>;
  /** The address of the project, and the commit. */
  path: string;
  sha: string;
  /**
   * Milliseconds from the request, which `asking` makes, to the first byte of the build's log in an open firehose, or
   * to a word in the log.
   */
  firstByte(asking?: () => Promise<{ id_str: string }>, word?: string): Promise<number>;
  /** Changes fields of the suite. */
  change(fields: Record<string, string>): Promise<void>;
  /** Sets the command of further builds. */
  command(command: string): Promise<void>;
  /** Requests `many` builds at once, spread over the projects. Returns the finished builds per second. */
  perSecond(many: number, projects?: number): Promise<number>;
  runnerPid(): number;
  /** The memory of server and runner together. */
  residentMegabytes(): number;
  /** Starts another server with its own runner on the same database. It gets requests for builds too from now on. */
  addServer(): Promise<void>;
  /** `attach` gives the suite a dependency, and `detach` removes it. */
  attach(dependency: string): Promise<void>;
  detach(dependency: string): Promise<void>;
  stop(): Promise<void>;
}

/** A line with the end of a build request. */
const isOver = /"state":"(passed|failed|errored)","type":"build_request"/;

/** With cores, each server gets the next of them for itself and its runner. */
export async function startBuilding(
  command: string,
  settings: NodeJS.ProcessEnv = {},
  cores: number[] = [],
): Promise<Building> {
  const project = await startProject({ files: { README: 'bench\n' } }, settings, cores);
  const { service, path, sha } = project;
  const servers = [service];
  await project.command(command);
  const attached = `${project.suite}/dependencies`;

  const asked = new Map([[path, 1]]); // each project was built once at the start
  const note = (at: string, more: number): void => void asked.set(at, (asked.get(at) ?? 0) + more);
  const body = (): string => `commit_ref=${sha}`;
  const ask = (suites: readonly string[] = []): Promise<Item> => {
    note(path, 1);
    const named = suites.map((id): [string, string] => ['suites[]', id]);
    return call<Item>(service, `${path}/build_requests`, [['commit_ref', sha], ...named]);
  };
  const requestPath = ({ id_str: id }: Pick<Item, 'id_str'>): string => `${path}/build_requests/${id}`;

  /** Reads all events of a project, from the beginning, until all requested builds have ended. */
  const untilOver = async (at: string): Promise<void> => {
    const leaving = new AbortController();
    const headers = { authorization: service.authorization, accept: 'application/x-ndjson' };
    const answer = await fetch(`${service.url}${at}/firehose?offset=0`, { headers, signal: leaving.signal });
    let over = 0;
    let rest = '';
    for await (const chunk of answer.body ?? []) {
      const lines = (rest + Buffer.from(chunk as Uint8Array).toString()).split('\n');
      rest = lines.pop() ?? '';
      over += lines.filter((line) => isOver.test(line)).length;
      if (over === asked.get(at)) break;
    }
    leaving.abort();
  };

  return {
    service,
    build: async (...suites) => follow(service, requestPath(await ask(suites))),
    path,
    sha,
    firstByte: (asking = ask, word = 'build_id_str') =>
      untilSaid(service, word, async () => requestPath(await asking())),
    change: (fields) => call(service, project.suite, fields, 'PUT'),
    command: (next) => project.command(next),
    async perSecond(many, projects = 1) {
      while (asked.size < projects) asked.set(await project.another(`bench ${asked.size}`), 1);
      const paths = [...asked.keys()].slice(0, projects);
      const headers = {
        authorization: service.authorization,
        'content-type': 'application/x-www-form-urlencoded',
      };
      const startedAt = performance.now();
      // Few connections, and one stream per project with all results: the load takes time from the service.
      const askers = Math.max(4, projects);
      const asking = Array.from({ length: askers }, async (_, asker) => {
        const { url } = servers[asker % servers.length] ?? service;
        const at = paths[asker % projects] ?? path;
        const turns = Math.ceil((many - asker) / askers);
        note(at, turns);
        using connection = await openConnection({ url: `${url}${at}/build_requests`, method: 'POST', headers, body });
        for (let turn = 0; turn < turns; turn += 1) await connection.ask();
      });
      await Promise.all([...asking, ...paths.map(untilOver)]);
      return many / ((performance.now() - startedAt) / 1000);
    },
    runnerPid: () => project.runnerPid(),
    residentMegabytes: () => residentMegabytes(service.pid) + residentMegabytes(project.runnerPid()),
    async addServer() {
      servers.push(await project.anotherServer());
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
