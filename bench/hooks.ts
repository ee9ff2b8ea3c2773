import { createHmac } from 'node:crypto';
import { createRequire } from 'node:module';
import { startBuilding, type Building } from './support/building.ts';
import { onBoth, type DatabaseName, type Databases } from './support/databases.ts';
import { requestsPerSecond } from './support/load.ts';
import { median, round, type Figure } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

const turns = 60;
const seconds = 5;

/** How much longer a hook takes than a request, and how many deliveries a server accepts per second. */
export async function hookFigures(databases: Databases): Promise<Figure[]> {
  const { sqlite, postgres } = await onBoth(databases, async (settings, name) => [
    await slowness(settings, name),
    await acceptance(await databases.settingsFor(name), name),
  ]);
  return [...sqlite, ...postgres];
}

interface Item {
  id_str: string;
  build_request_id_str: string;
  secret: string;
}

/** The push of a branch, as GitHub sends it. */
function pushOf(sha: string): object {
  const examples = createRequire(import.meta.url)('@octokit/webhooks-examples') as {
    name: string;
    examples: object[];
  }[];
  const push = examples
    .find(({ name }) => name === 'push')
    ?.examples.find((one) => /refs\/heads/.test(JSON.stringify(one)));
  return { ...push, ref: 'refs/heads/main', after: sha, deleted: false, repository: undefined };
}

async function hookAt(service: Service, path: string, payload: object) {
  const hook = await call<Item>(service, `${path}/hooks`, { provider: 'github' });
  const body = JSON.stringify(payload);
  const signature = createHmac('sha256', hook.secret).update(body).digest('hex');
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'push',
    'x-hub-signature-256': `sha256=${signature}`,
  };
  return { id: hook.id_str, url: `${service.url}/hooks/${hook.id_str}`, method: 'POST' as const, headers, body };
}

/** Hooks and requests in turns, each from the call to the first byte of the build's log. */
async function slowness(settings: NodeJS.ProcessEnv, name: DatabaseName): Promise<Figure> {
  await using stack = new AsyncDisposableStack();
  const building: Building = await startBuilding('echo hello', settings);
  stack.defer(() => building.stop());
  await building.build(); // fetches the commit and makes its work tree
  const { url, ...sent } = await hookAt(building.service, building.path, pushOf(building.sha));
  const deliver = async (): Promise<{ id_str: string }> => {
    const answer = await fetch(url, sent);
    const { response } = (await answer.json()) as { response: Item };
    return { id_str: response.build_request_id_str };
  };
  const times = { asked: [] as number[], told: [] as number[] };
  for (let turn = -10; turn < turns; turn += 1) {
    const [asked, told] = [await building.firstByte(), await building.firstByte(deliver)];
    if (turn < 0) continue; // warms up: the code is compiled
    times.asked.push(asked);
    times.told.push(told);
  }
  const [asked, told] = [median(times.asked), median(times.told)];
  return {
    what: `hook to first log byte on ${name}, over a request for the same commit`,
    value: told / asked,
    limit: { atMost: 1.3 },
    from: `${round(told)} ms against ${round(asked)} ms`,
  };
}

/** Without a runner, so only the server is measured. Afterwards the server must have every accepted delivery. */
async function acceptance(settings: NodeJS.ProcessEnv, name: DatabaseName): Promise<Figure> {
  await using stack = new AsyncDisposableStack();
  const service = await startHeadrace(undefined, settings, { flags: ['--no-runner'] });
  stack.defer(() => service.stop());
  const form = { name: 'bench', repository_url: 'git@example.org:x.git' };
  const path = `/projects/${(await call<Item>(service, '/projects', form)).id_str}`;
  const { body, id, ...target } = await hookAt(service, path, pushOf('c0ffee'.padEnd(40, '0')));
  let sent = 0;
  const counted = (): string => {
    sent += 1;
    return body;
  };
  const rate = await requestsPerSecond({ ...target, body: counted }, 16, seconds);
  const kept = await countKept(service, `${path}/hooks/${id}/deliveries`);
  if (kept !== sent) throw new Error(`${sent} deliveries were accepted on ${name}, and ${kept} are there`);
  return {
    what: `hook deliveries a second on ${name}, none lost`,
    value: rate,
    limit: { atLeast: 200 },
    from: `${sent} of ${body.length} bytes over 16 connections, each with its request`,
  };
}

async function countKept(service: Service, path: string): Promise<number> {
  let count = 0;
  for (let before = ''; ;) {
    const page = await call<Item[]>(service, `${path}?limit=1000${before}`);
    count += page.length;
    if (page.length < 1000) return count;
    before = `&before=${page.at(-1)?.id_str}`;
  }
}
