import { text as textOf } from 'node:stream/consumers';
import type { Answered, Project } from '../client/operations.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { checkDocument } from '../../shared/documents/file.ts';
import { RefusedError, type DocumentFile } from '../../shared/documents/mistakes.ts';
import type { Call } from './call.ts';
import { readDocument, type Document } from './documents.ts';
import { WrongUse } from './errors.ts';
import { lineDiff } from './line-diff.ts';
import type { Colour, Screen } from './screen.ts';
import { plainFile } from './plain-file.ts';
import { allowSources, newSources, sourcesIn, withValues, type Source } from './sources.ts';
import { clean, width, words } from './text.ts';

/** The file lacks something, which would be deleted. */
export class WouldDelete extends WrongUse {}

type Change = Answered<'configure'>['changes'][number];

interface Options {
  file?: string;
  dryRun?: true;
  check?: true;
  prune?: true;
  create?: true;
  fromEnv?: string[];
}

export async function run(call: Call<Options>): Promise<number> {
  const { file } = call.options;
  if (file === undefined) throw new WrongUse('Name the file: headrace apply -f FILE');
  const read = await readDocument(await contentOf(file), file);
  const document = read.table as Document;
  sourcesIn(document, call.env); // refuses secrets in words of the command
  refuseMistakes(read);
  return applyDocument(call, { document, file, project: await projectOf(call, document, file) });
}

/** What the server would refuse, with the lines of the file. */
function refuseMistakes(file: DocumentFile): void {
  try {
    checkDocument(file);
  } catch (error) {
    throw error instanceof RefusedError ? new WrongUse(error.lines.join('\n')) : error;
  }
}

interface Applied {
  document: Document;
  file: string;
  project: Project | undefined;
}

export async function applyDocument(call: Call<Options>, { document, file, project }: Applied): Promise<number> {
  const { client, screen, env } = call;
  const { dryRun, check, prune = false } = call.options;
  const sources = sourcesIn(document, env);
  const params = { project_id: project?.id_str ?? '' };
  // The values are sent only after everything was shown and allowed.
  const asked = { document: JSON.stringify(document), dry_run: true };
  const { changes } = await (project ? client.call('configure', params, asked) : client.call('makeProject', {}, asked));
  const current = project ? (JSON.parse((await client.call('config', params)).document) as Document) : {};
  const unknown = newSources(sources, current);
  const listed = sources.map((source) => ({ ...source, new: unknown.includes(source) }));
  if (!screen.isJson) show(screen, changes);
  if (!screen.isJson && changes.length > 0) showSources(screen, listed);
  const deletions = changes.filter(({ action }) => action === 'delete').length;
  const name = project?.name ?? String(document.name);
  if (dryRun || check) {
    if (screen.isJson) screen.json({ applied: false, changes, sources: listed });
    else if (changes.length === 0) screen.print(words`Nothing to change in ${name}.`);
    if (deletions > 0 && !prune) screen.hint('To delete this, apply needs --prune.');
    return check && changes.length > 0 ? 1 : 0;
  }
  if (deletions > 0 && !prune)
    throw new WouldDelete(
      `This would delete ${deletions === 1 ? 'something' : `${deletions} things`}. To confirm, add --prune. Nothing was changed.`,
    );
  // A server that reports no changes gets no value unseen either.
  if (!screen.isJson && changes.length === 0) showSources(screen, listed);
  await allowSources(call, unknown, call.options.fromEnv);
  // Also if nothing changes: the server stores the file, with its order, for export.
  const filledIn = JSON.stringify(withValues(document, env));
  const made: Answered<'configure'> & Partial<Answered<'makeProject'>> = project
    ? await client.call('configure', params, { document: filledIn, prune })
    : await client.call('makeProject', {}, { document: filledIn });
  if (screen.isJson) screen.json({ ...made, sources: listed });
  else if (made.changes.length === 0) screen.print(words`Nothing to change in ${name}.`);
  else {
    // Only now is it known whether a value differs.
    const late = made.changes.filter((one) => !changes.some(({ what }) => what === one.what));
    show(screen, late);
    showSecrets(screen, made.changes);
    screen.print(words`${name} now matches ${file}.`);
    if (made.ssh_public_key !== undefined && !String(document.clone_url).startsWith('https:')) {
      screen.print('Install its public key in the repository, so that it can be fetched:');
      screen.print(clean(made.ssh_public_key));
    }
  }
  return 0;
}

async function projectOf(call: Call<Options>, document: Document, file: string) {
  const { name, repository_url: repository, clone_url: address = repository } = document;
  if (!call.options.create) return call.project(typeof name === 'string' ? { name, file } : undefined);
  if (typeof name !== 'string' || typeof address !== 'string')
    throw new WrongUse(words`${file} needs a name and a clone_url or repository_url to make a project of.`);
  const projects = await call.client.call('projects');
  return projects.find((one) => one.owned && one.name === name);
}

/** The server shows secrets of new records only once. */
function showSecrets(screen: Screen, changes: readonly Change[]): void {
  for (const { what, secret, url } of changes) {
    if (secret === undefined) continue;
    screen.print(words`Secret of the ${what}, shown only once:`);
    if (what.startsWith('hook ') && url !== undefined) screen.print(words`    address: ${url}`);
    screen.print(words`    secret: ${secret}`);
  }
}

async function contentOf(file: string): Promise<string> {
  if (file === '-') return textOf(process.stdin);
  const content = await plainFile(file, bytes.body);
  if (content === undefined) throw new WrongUse(words`There is no ${file}.`);
  if (content.length > bytes.body) throw new WrongUse(words`${file} has more than ${bytes.body} bytes.`);
  return content.toString();
}

const signs: Record<string, { sign: string; colour: Colour }> = {
  create: { sign: '+', colour: 'green' },
  change: { sign: '~', colour: 'yellow' },
  delete: { sign: '-', colour: 'red' },
};

/** Nothing is cut: users must see everything that they agree to. */
function show(screen: Screen, changes: readonly Change[]): void {
  for (const { action, what, fields } of changes) {
    const { sign, colour } = signs[action] ?? { sign: '?', colour: 'dim' };
    screen.print(screen.paint(`${sign} ${clean(what)}`, colour));
    for (const field of fields) showField(screen, field);
  }
}

function showSources(screen: Screen, sources: readonly (Source & { new: boolean })[]): void {
  for (const { suite, variable, from_env: name, new: isNew } of sources) {
    const owner = suite === '' ? 'the project' : `suite ${suite}`;
    const line = words`variable ${variable} of ${owner} ← environment variable ${name}${isNew ? ' (new)' : ''}`;
    screen.print(screen.paint(line, isNew ? 'yellow' : 'dim'));
  }
}

const diffColours: Record<string, Colour> = { '-': 'red', '+': 'green', '@': 'dim' };

function showField(screen: Screen, { name, from, to }: Change['fields'][number]): void {
  if (name === 'content' && from === '' && to === '') return screen.print('    content: another value');
  const line = words`    ${name}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`;
  if (!/\n/.test(from + to) && width(line) <= screen.columns) return screen.print(line);
  screen.print(words`    ${name}:`);
  for (const text of lineDiff(from, to)) screen.print(`    ${screen.paint(clean(text), diffColours[text[0] ?? ''])}`);
}
