import type { Call } from './call.ts';
import { onInterrupt } from './follow.ts';
import { copyLog, LogWriter } from './log-output.ts';
import { findBuild } from './named-build.ts';
import { hintAtShell } from './shell-hint.ts';

export async function run(call: Call<{ follow?: true }>, named: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const build = await findBuild(call, project, named);
  const params = { project_id: project.id_str, build_id: build.id_str };
  if (screen.isJson) return screen.json({ build, log: await client.text('buildLog', params) });
  if (!call.options.follow) {
    await copyLog(await client.bytes('buildLog', params), screen);
    if (screen.isLive) await hintAtShell(call, params);
    return;
  }
  using _ = onInterrupt(() => screen.hint(`The build goes on. Come back with: headrace logs ${build.id_str} --follow`));
  const isTerminal = screen.out.isTTY;
  const writer = new LogWriter(screen, isTerminal);
  for await (const { event, text = '', bytes = text } of client.follow(
    'buildEvents',
    params,
    isTerminal ? undefined : 'buildLog',
  ))
    if (event === 'log') await writer.write(bytes);
  await writer.end();
}
