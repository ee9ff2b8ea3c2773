import type { Params } from '../client/client.ts';
import type { Call } from './call.ts';

/** Prints how to open a shell in a failed build, if its server and its runner allow that. */
export async function hintAtShell({ client, screen }: Call, params: Params): Promise<void> {
  const build = await client.call('build', params).catch(() => undefined);
  if (build?.files_kept_until !== undefined)
    screen.hint(`Open a shell where it failed with: headrace shell ${build.id_str}`);
}
