import type { Call } from './command.ts';
import { followRequest } from './follow.ts';
import { findRequest } from './project.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<number | void> {
  const { client, screen } = call;
  const project = await call.project();
  const { id_str: id } = await findRequest(client, project, { named: call.args[0], cwd: call.cwd });
  const fields = call.has('failed') ? { failed_only: true } : {};
  const request = await client.call('rerun', { project_id: project.id_str, build_request_id: id }, fields);
  if (call.has('follow')) return followRequest(call, project, request);
  if (screen.isJson) return screen.json(request);
  screen.say(words`Request ${id} of ${request.commit_ref} runs again. Follow it with: headrace watch ${id}`);
}
