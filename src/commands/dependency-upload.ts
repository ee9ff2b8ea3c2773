import { stat } from 'node:fs/promises';
import { uploadArchive } from '../client/upload.ts';
import type { Call } from './command.ts';
import { WrongUse } from './errors.ts';
import { followRecord } from './follow-record.ts';
import { ProgressBar } from './progress.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<number> {
  const { client, screen, args } = call;
  const [named = '', file = ''] = args;
  const found = await stat(file).catch((error: Error) => {
    throw new WrongUse(words`Cannot read ${file}: ${error.message}`);
  });
  if (!found.isFile()) throw new WrongUse(words`${file} is not a file. Pack the source into an archive first.`);
  if (found.size === 0) throw new WrongUse(words`${file} is empty.`);
  const dependencies = await client.call('dependencies');
  const dependency =
    dependencies.find(({ name }) => name === named) ?? dependencies.find(({ id_str: id }) => id === named);
  if (!dependency)
    throw new WrongUse(words`You have no dependency ${named}. Make it first, at ${client.url}/ui/dependencies`);
  const bar = new ProgressBar(screen, words`uploading ${named}`, found.size);
  const place = { dependency_id: dependency.id_str };
  try {
    await uploadArchive(client, place, { file, size: found.size, onSent: (bytes) => bar.at(bytes) });
  } finally {
    bar.end();
  }
  return followRecord(call, 'dependencyEvents', place, {
    name: words`dependency ${named}`,
    leaves: 'The compile goes on. See the dependency’s page for how it ends.',
    record: dependency,
  });
}
