import type { Call } from './command.ts';
import { followRequest } from './follow.ts';
import { findRequest } from './project.ts';

export async function run(call: Call): Promise<number> {
  const project = await call.project();
  const request = await findRequest(call.client, project, { named: call.args[0], cwd: call.cwd });
  const result = await followRequest(call, project, request);
  return call.has('follow') ? result : 0;
}
