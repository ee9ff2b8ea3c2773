import type { Call } from './call.ts';
import { findRequest } from './project.ts';
import { clean } from './text.ts';

export async function run(call: Call, named?: string): Promise<void> {
  const { client, screen } = call;
  const project = await call.project();
  const { id_str: id } = await findRequest(call, project, named);
  const suites = await client.call('explain', { project_id: project.id_str, build_request_id: id });
  if (screen.isJson) return screen.json(suites);
  if (suites.length === 0) return screen.print('The commit was not fetched, so no suite could be chosen.');
  for (const { name, runs, why } of suites) {
    screen.print(
      screen.paint(`${runs ? '✓' : '-'} ${clean(name)} ${runs ? 'runs' : 'does not run'}`, runs ? 'green' : 'dim'),
    );
    screen.print(`    ${clean(why)}`);
  }
}
