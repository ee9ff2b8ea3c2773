import type { Call } from './call.ts';
import { painted } from './states.ts';

export async function run({ client, screen }: Call): Promise<void> {
  const projects = await client.call('projects');
  if (screen.isJson) return screen.json(projects);
  if (projects.length === 0) return screen.print(`You have no projects yet. Create one at ${client.url}/ui/`);
  screen.table(
    [{ title: 'NAME', gives: 1 }, { title: 'STATE' }, { title: 'REPOSITORY', gives: 3 }, { title: 'ID', gives: 2 }],
    projects.map(({ name, build_state: state, clone_url: repository, id_str: id }) => [
      name,
      painted(state),
      repository,
      id,
    ]),
  );
}
