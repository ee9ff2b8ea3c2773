import type { BuildRequest, Project, StreamName } from '../client/operations.ts';
import type { Params } from '../client/client.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import type { Call } from './call.ts';
import { Following, type Row } from './following.ts';
import { Live } from './live.ts';
import { copyLog } from './log-output.ts';
import { hintAtShell } from './shell-hint.ts';
import { exitStatus, hasFailed, resultOf } from './states.ts';
import { words } from './text.ts';

/** Only the end of a longer log is shown. */
const longestLog = 256 * 1024;
/** The interval of queries why something waits. Shorter waits show no reason. */
const checkEveryMs = 3000;

/** Then shows the logs of failed builds. Returns the result as an exit status. */
export async function followRequest(call: Call, project: Project, request: BuildRequest): Promise<number> {
  const { client, screen } = call;
  const inProject = { project_id: project.id_str };
  const inRequest = { ...inProject, build_request_id: request.id_str };
  const following = new Following(request, {
    build: (id) => client.call('build', { ...inProject, build_id: id }),
    request: () => client.call('request', inRequest),
    page: `${client.url}/ui/projects/${project.id_str}`,
  });
  const live = screen.isLive ? new Live(screen, () => following.lines(screen)) : undefined;
  using _ = onInterrupt(() => {
    live?.end();
    screen.hint(`The build continues. Follow it with: headrace watch ${request.id_str}`);
  });
  if (!live)
    screen.print(
      words`request ${request.id_str} of ${request.commit_ref}: ${request.build_state}${following.approval}`,
    );
  live?.changed();
  const show = (line: string | undefined): void => {
    if (live) live.changed();
    else if (line !== undefined) screen.print(line);
  };
  const refreshing = repeatedly(
    checkEveryMs,
    async () => show(await following.refreshWaiting()),
    () => {}, // if the server cannot be reached, the stream reports it
  );
  try {
    for await (const event of client.follow('requestEvents', inRequest)) show(await following.take(event));
  } finally {
    await refreshing.stop();
    live?.end();
  }
  const failed = following.rows.filter(({ state }) => hasFailed(state));
  if (screen.isJson) {
    screen.json({ request: await client.call('request', inRequest), builds: following.rows.map(asRecord) });
  } else {
    for (const { id, name } of failed)
      await showLog(call, words`log of ${name}, build ${id}`, 'buildLog', { ...inProject, build_id: id }, id);
    const [first] = failed;
    if (first && screen.isLive) await hintAtShell(call, { ...inProject, build_id: first.id });
    if (following.rows.length === 0 && following.state === 'errored')
      await showLog(call, 'log of the fetch', 'requestLog', inRequest);
  }
  return resultOf(following.state) ?? exitStatus.errored;
}

function asRecord({ id, name, attempt, state }: Row): object {
  return { id_str: id, suite: name, attempt, build_state: state };
}

async function showLog(call: Call, title: string, name: StreamName, params: Params, build?: string): Promise<void> {
  const { client, screen } = call;
  screen.print('');
  screen.print(screen.paint(`── ${title}`, 'bold'));
  const range = { range: `bytes=-${longestLog}` };
  const answer = await client.bytes(name, params, { headers: range }).catch(() => undefined); // an empty log has no range
  if (!answer) return;
  const [, from] = /^bytes (\d+)-/.exec(answer.headers['content-range'] ?? '') ?? [];
  if (from !== undefined && from !== '0' && build !== undefined)
    screen.print(screen.paint(`(the end of it; all of it: headrace logs ${build})`, 'dim'));
  await copyLog(answer, screen, true);
}

export function onInterrupt(onSignal: () => void): Disposable {
  const interrupted = (): void => {
    onSignal();
    process.exit(130); // the status that shells use for an interrupt
  };
  process.once('SIGINT', interrupted);
  return { [Symbol.dispose]: () => void process.off('SIGINT', interrupted) };
}
