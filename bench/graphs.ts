import { onBoth, type DatabaseName } from './support/databases.ts';
import { startBuilding, type Building } from './support/building.ts';
import { follow } from './support/follow.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call } from './support/servers.ts';
import { signIn } from './support/signing-in.ts';
import { timed } from './support/timed.ts';

const suites = 50;
const wide = 5;
const rounds = 7;
const largest = { suites: 200, deep: 40 };

interface Item {
  id_str: string;
}

/** The cost of suites that wait for each other. */
export const graphs: Benchmark = {
  name: 'graphs',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
      const building = await startBuilding('true', settings);
      try {
        return [await overTogether(building, name), ...(await largestGraph(building, name))];
      } finally {
        await building.stop();
      }
    });
    return [...sqlite, ...postgres];
  },
};

async function addSuites({ service, path }: Building, from: number, to: number): Promise<string[]> {
  const ids: string[] = [];
  for (let at = from; at < to; at += 1) {
    const made = await call<Item>(service, `${path}/suites`, { name: `suite ${at}`, command: 'true' });
    ids.push(made.id_str);
  }
  return ids;
}

/** Each suite needs the suite that is this many places before it. */
async function chain({ service, path }: Building, ids: readonly string[], places: number): Promise<void> {
  for (const [at, id] of ids.slice(places).entries())
    await call(service, `${path}/suites/${id}`, { 'needs[]': ids[at] ?? '' }, 'PUT');
}

async function unchain({ service, path }: Building, ids: readonly string[]): Promise<void> {
  for (const id of ids) await call(service, `${path}/suites/${id}`, { 'needs[]': '' }, 'PUT');
}

/** No-op suites in a graph, against the same number that start together, in turns. */
async function overTogether(building: Building, name: DatabaseName): Promise<Figure> {
  const ids = await addSuites(building, 1, suites);
  const [together, graph]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < rounds; turn += 1) {
    together.push(await timed(() => building.build()));
    await chain(building, ids, wide);
    graph.push(await timed(() => building.build()));
    await unchain(building, ids);
  }
  return {
    what: `a graph of ${suites} no-op suites, over as many without needs, on ${name}`,
    value: median(graph) / median(together),
    limit: { atMost: 1.5 },
    from: `${round(median(graph))} ms against ${round(median(together))} ms`,
  };
}

/** Time until the builds of a large graph are queued, and the cost of its page when they have ended. */
async function largestGraph(building: Building, name: DatabaseName): Promise<Figure[]> {
  const { service, path, sha } = building;
  const known = await call<Item[]>(service, `${path}/suites?limit=1000`);
  await addSuites(building, known.length, largest.suites);
  const ids = (await call<Item[]>(service, `${path}/suites?limit=1000`)).map(({ id_str: id }) => id);
  await chain(building, ids, largest.suites / largest.deep);
  const queued: number[] = [];
  let request = '';
  for (let turn = 0; turn < 3; turn += 1) {
    const startedAt = performance.now();
    request = (await call<Item>(service, `${path}/build_requests`, { commit_ref: sha })).id_str;
    queued.push(performance.now() - startedAt);
    await follow(service, `${path}/build_requests/${request}`);
  }
  const cookie = await signIn(service);
  const pages: number[] = [];
  let page = '';
  for (let turn = 0; turn <= 15; turn += 1) {
    const startedAt = performance.now();
    const answer = await fetch(`${service.url}/ui${path}/requests/${request}`, { headers: { cookie } });
    page = await answer.text();
    if (turn > 0) pages.push(performance.now() - startedAt); // the first turn warms up
    const shown = page.split('class="build"').length - 1;
    if (shown !== largest.suites) throw new Error(`the page shows ${shown} builds: ${answer.status}`);
  }
  const what = `${largest.suites} suites, ${largest.deep} deep`;
  return [
    {
      what: `${what}: ms until they are queued, on ${name}`,
      value: median(queued),
      limit: { atMost: 1000 },
      from: `median of ${queued.length}, from the request to its answer`,
    },
    {
      what: `${what}: ms for the page of their request, on ${name}`,
      value: median(pages),
      limit: { atMost: 300 },
      from: `median of ${pages.length}; ${round(page.length / 1000)} kB before compression`,
    },
  ];
}
