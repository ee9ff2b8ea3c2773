import { setTimeout as pause } from 'node:timers/promises';
import { FakeForge } from '../test/support/fake-forge.ts';
import { onBoth, type DatabaseName, type Databases } from './support/databases.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call, startHeadrace } from './support/servers.ts';

/** The forge's time for each response. */
const answerMs = 20;
const turns = 30;
const projects = 1000;
const seconds = 15;
/** This many of the newest projects are checked at once, with this many requests each. */
const [atOnce, requestsEach] = [5, 3];

const isCheck = ({ path }: { path: string }): boolean => /\/repos\/team\//.test(path);

interface Item {
  id_str: string;
}

async function connected(settings: NodeJS.ProcessEnv) {
  const names = Array.from({ length: projects }, (_, at) => `team/app${at}`);
  const forge = await FakeForge.start('gitea', ...names);
  const allowing = { ...settings, HEADRACE_WEBHOOK_ALLOW: '127.0.0.0/8' };
  const service = await startHeadrace(undefined, allowing, { flags: ['--no-runner'] });
  const { id_str: id } = await call<Item>(service, '/forges', forge.fields);
  const make = (repository: string) => call<Item>(service, '/projects', { forge_id: id, repository });
  return {
    forge,
    service,
    id,
    names,
    make,
    async [Symbol.asyncDispose]() {
      await service.stop();
      await forge[Symbol.asyncDispose]();
    },
  };
}

/** The time of one step, without the time of the forge's responses. */
async function oneStep(settings: NodeJS.ProcessEnv, name: DatabaseName): Promise<Figure> {
  await using place = await connected(settings);
  const { forge, names, make } = place;
  let atForge = 0;
  forge.interfere = async (_, response) => {
    const began = performance.now();
    response.once('finish', () => (atForge += performance.now() - began));
    await pause(answerMs);
    return undefined;
  };
  const own: number[] = [];
  let whole = 0;
  for (const repository of names.slice(0, turns)) {
    atForge = 0;
    const began = performance.now();
    await make(repository);
    whole = performance.now() - began;
    own.push(whole - atForge);
  }
  return {
    what: `a project in one step on ${name}, beside the forge's own answers, in ms`,
    value: median(own),
    limit: { atMost: 50 },
    from: `${turns} projects; the last took ${round(whole)} ms, of which the forge ${round(atForge)} ms`,
  };
}

/** A new token makes the server check every project. Counts arrivals after the first projects, which come at once. */
async function checks(settings: NodeJS.ProcessEnv): Promise<Figure> {
  await using place = await connected(settings);
  const { forge, service, id, names, make } = place;
  for (let at = 0; at < names.length; at += 10) await Promise.all(names.slice(at, at + 10).map(make));
  forge.calls.length = 0;
  await call(service, `/forges/${id}`, { token: forge.fields.token ?? '' }, 'PUT');
  await pause(seconds * 1000);
  const arrivals = forge.calls
    .filter(isCheck)
    .map(({ at }) => at)
    .slice(atOnce * requestsEach);
  const [first = 0, last = 0] = [arrivals[0], arrivals.at(-1)];
  return {
    what: `requests a second at a forge while ${projects} projects are looked at`,
    value: ((arrivals.length - 1) * 1000) / (last - first),
    limit: { atMost: 2.02 },
    from: `${arrivals.length} in ${round((last - first) / 1000)} s, after those of the first ${atOnce} projects`,
  };
}

/** The cost of a connected forge. */
export const forges: Benchmark = {
  name: 'forges',
  async run(databases: Databases) {
    const { sqlite, postgres } = await onBoth(databases, oneStep);
    return [sqlite, postgres, await checks(await databases.settingsFor('SQLite'))];
  },
};
