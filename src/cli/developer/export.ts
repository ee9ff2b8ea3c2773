import type { Call } from './call.ts';
import { formats, writeDocument, type Document } from './documents.ts';
import { WrongUse } from './errors.ts';

export async function run(call: Call<{ format?: string }>): Promise<void> {
  const { client, screen } = call;
  const wanted = call.options.format ?? (screen.isJson ? 'json' : 'toml');
  const format = formats.find((one) => one === wanted);
  if (!format) throw new WrongUse(`--format is one of ${formats.join(', ')}`);
  if (screen.isJson && format !== 'json')
    throw new WrongUse('--json prints JSON. Leave one of --json and --format out.');
  const project = await call.project();
  const { document } = await client.call('config', { project_id: project.id_str });
  screen.out.write(await writeDocument(JSON.parse(document) as Document, format));
}
