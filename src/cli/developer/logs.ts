import type { Call } from './call.ts';
import { onInterrupt } from './follow.ts';
import { WrongUse } from './errors.ts';
import { copyLog, LogWriter } from './log-output.ts';
import { findBuild } from './named-build.ts';
import { hintAtShell } from './shell-hint.ts';
import { words } from './text.ts';

const ofService = ['serviceLog', 'serviceEvents'] as const;

export async function run(call: Call<{ follow?: true; service?: string }>, named: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const build = await findBuild(call, project, named);
  const { service } = call.options;
  if (service !== undefined && !build.services.some(({ name }) => name === service)) {
    const names = build.services.map(({ name }) => name).join(', ');
    throw new WrongUse(words`${build.suite_name} has no service ${service}. It has: ${names || 'none'}`);
  }
  const [log, events] = service === undefined ? (['buildLog', 'buildEvents'] as const) : ofService;
  const params = {
    project_id: project.id_str,
    build_id: build.id_str,
    ...(service !== undefined && { service_name: service }),
  };
  if (screen.isJson) {
    if (call.options.follow) for await (const _ of client.follow(events, params)); // until it ends
    const ended = call.options.follow ? await client.call('build', params) : build;
    return screen.json({ build: ended, log: await client.text(log, params) });
  }
  if (!call.options.follow) {
    await copyLog(await client.bytes(log, params), screen);
    if (screen.isLive && service === undefined) await hintAtShell(call, params);
    return;
  }
  const of = service === undefined ? '' : ` --service ${service}`;
  using _ = onInterrupt(() =>
    screen.hint(`The build continues. Follow it with: headrace logs ${build.id_str} --follow${of}`),
  );
  const isTerminal = screen.out.isTTY;
  const writer = new LogWriter(screen, isTerminal);
  for await (const { event, text = '', bytes = text } of client.follow(events, params, isTerminal ? undefined : log))
    if (event === 'log') await writer.write(bytes);
  await writer.end();
}
