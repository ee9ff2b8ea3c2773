import type { Call } from './call.ts';

export async function run({ client, screen }: Call): Promise<void> {
  const me = await client.call('whoami');
  if (screen.isJson) screen.json({ ...me, url: client.url });
  else
    screen.facts([
      ['email', me.email],
      ['server', client.url],
    ]);
}
