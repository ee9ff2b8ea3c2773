import type { Call } from './command.ts';
import { findRequest } from './project.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const { id_str: id } = await findRequest(client, project, { named: call.args[0], cwd: call.cwd });
  const request = await client.call('cancel', { project_id: project.id_str, build_request_id: id });
  if (screen.isJson) return screen.json(request);
  screen.say(words`Request ${id} of ${request.commit_ref} is ${request.build_state}.`);
}
