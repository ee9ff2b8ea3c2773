import type { Call } from './call.ts';
import { copyLog } from './log-output.ts';
import { findBuild } from './named-build.ts';

export async function run(call: Call, named: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const build = await findBuild(call, project, named);
  const params = { project_id: project.id_str, build_id: build.id_str };
  if (screen.isJson) return screen.json({ build, summary: await client.text('summary', params) });
  await copyLog(await client.bytes('summary', params), screen);
}
