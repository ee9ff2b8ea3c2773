import type { Params } from '../client/client.ts';
import type { Call } from './call.ts';

/** Says how to look around in a build that failed, where its server and its runner let people do that. */
export async function hintAtShell({ client, screen }: Call, place: Params): Promise<void> {
  const build = await client.call('build', place).catch(() => undefined);
  if (build?.files_kept_until !== undefined)
    screen.hint(`Open a shell where it failed with: headrace shell ${build.id_str}`);
}
