import type { Params } from '../client/client.ts';
import type { Call } from './call.ts';

/** Prints nothing if the server or the runner offers no shell. */
export async function hintAtShell({ client, screen }: Call, params: Params): Promise<void> {
  const build = await client.call('build', params).catch(() => undefined);
  if (build?.files_kept_until !== undefined)
    screen.hint(`Open a shell in its files with: headrace shell ${build.id_str}`);
}
