import type { Call } from './call.ts';
import { findRequest } from './project.ts';
import { words } from './text.ts';

export async function run(call: Call, named?: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const { id_str: id } = await findRequest(call, project, named);
  const request = await client.call('cancel', { project_id: project.id_str, build_request_id: id });
  if (screen.isJson) return screen.json(request);
  screen.print(words`Request ${id} of ${request.commit_ref} is ${request.build_state}.`);
}
