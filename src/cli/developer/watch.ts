import type { Call } from './call.ts';
import { followRequest } from './follow.ts';
import { findRequest } from './project.ts';

export async function run(call: Call<{ follow?: true }>, named?: string): Promise<number> {
  const project = await call.project();
  const request = await findRequest(call, project, named);
  const result = await followRequest(call, project, request);
  return call.options.follow ? result : 0;
}
