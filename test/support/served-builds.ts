import type { TestContext } from 'node:test';
import type { Build, Installation, Project } from './installation.ts';

interface Service {
  name: string;
  state: string;
  started_at: string | null;
  ready_at: string | null;
  finished_at: string | null;
  exit_status: number | null;
}

interface Result {
  build: Build & { services: Service[]; steps: { name: string; state: string; line: number; started_at: string }[] };
  log: string;
  /** The log of a service. */
  said: (name: string) => Promise<string>;
}

/** Builds of a project that have services. */
export interface ServedBuilds {
  /** A suite with services; `variables[0][name]` and the like are fields of a service too. */
  suite(
    t: TestContext,
    name: string,
    command: string,
    services: Record<string, string>[],
    more?: Record<string, string>,
  ): Promise<string>;
  /** What became of these suites with a new commit. */
  built(...suites: string[]): Promise<Result[]>;
  resultsOf(ref: string, sha: string, suites: string[]): Promise<Result[]>;
}

export function servedBuilds(installation: Installation, project: Project): ServedBuilds {
  const resultsOf: ServedBuilds['resultsOf'] = async (ref, sha, suites) => {
    await project.build(ref);
    const builds = await project.builds((await project.commits()).find((commit) => commit['ref'] === sha));
    return Promise.all(
      suites.map(async (id) => {
        const build = builds.find(({ suite_id_str }) => suite_id_str === id) as Result['build'];
        const path = `${project.path}/builds/${build.id_str}/services`;
        const said = (name: string): Promise<string> => installation.api().text(`${path}/${name}/log.txt`);
        return { build, log: await project.log(build), said };
      }),
    );
  };
  return {
    suite(t, name, command, services, more = {}) {
      const fields = services.flatMap((service, at) =>
        Object.entries(service).map(([field, value]) => [
          field.replace(/^\w+/, (first) => `services[${at}][${first}]`),
          value,
        ]),
      );
      return project.suite(t, name, command, { ...more, ...(Object.fromEntries(fields) as Record<string, string>) });
    },
    async built(...suites) {
      const sha = await project.repository.commit({ message: `Serve ${suites.join(' ')}` });
      return resultsOf(sha, sha, suites);
    },
    resultsOf,
  };
}
