import type { Call } from './call.ts';
import { followRequest } from './follow.ts';
import { findRequest } from './project.ts';
import { words } from './text.ts';

export async function run(call: Call<{ failed?: true; follow?: true }>, named?: string): Promise<number | void> {
  const { client, screen } = call;
  const project = await call.project();
  const { id_str: id } = await findRequest(call, project, named);
  const fields = call.options.failed ? { failed_only: true } : {};
  const request = await client.call('rerun', { project_id: project.id_str, build_request_id: id }, fields);
  if (call.options.follow) return followRequest(call, project, request);
  if (screen.isJson) return screen.json(request);
  screen.print(words`Request ${id} of ${request.commit_ref} runs again. Follow it with: headrace watch ${id}`);
}
