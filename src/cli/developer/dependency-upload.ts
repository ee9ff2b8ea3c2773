import { stat } from 'node:fs/promises';
import { uploadArchive } from '../client/upload.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { followRecord } from './follow-record.ts';
import { oneNamed } from './project.ts';
import { ProgressBar } from './progress.ts';
import { words } from './text.ts';

export async function run(call: Call, named: string, file: string): Promise<number> {
  const { client, screen } = call;
  const found = await stat(file).catch((error: Error) => {
    throw new WrongUse(words`Cannot read ${file}: ${error.message}`);
  });
  if (!found.isFile()) throw new WrongUse(words`${file} is not a file. Pack the source into an archive first.`);
  if (found.size === 0) throw new WrongUse(words`${file} is empty.`);
  const dependency = oneNamed(await client.call('dependencies'), named);
  if (!dependency)
    throw new WrongUse(words`You have no dependency ${named}. Create it first, at ${client.url}/ui/dependencies`);
  const bar = new ProgressBar(screen, words`uploading ${named}`, found.size);
  const params = { dependency_id: dependency.id_str };
  try {
    await uploadArchive(client, params, { file, size: found.size, onSent: (bytes) => bar.at(bytes) });
  } finally {
    bar.end();
  }
  return followRecord(call, 'dependencyEvents', params, {
    name: words`dependency ${named}`,
    leaves: 'The compile continues. The dependency’s page shows its result.',
    record: dependency,
  });
}
