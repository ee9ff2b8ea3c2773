import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import type { Answered, Project } from '../client/operations.ts';
import type { Call } from './command.ts';
import { readDocument, withValues } from './documents.ts';
import { WrongUse } from './errors.ts';
import type { Colour, Screen } from './screen.ts';
import { clean, fit, words } from './text.ts';

type Change = Answered<'configure'>['changes'][number];

export async function run(call: Call): Promise<number | void> {
  const { client, screen, env } = call;
  const file = call.value('file');
  if (file === undefined) throw new WrongUse('Say which file: headrace apply -f FILE');
  const said = await readDocument(await contentOf(file), file);
  const document = JSON.stringify(withValues(said, env));
  const isOnlyShown = call.has('dry-run') || call.has('check');
  if (!call.has('create')) return apply(call, await call.project(), { document, file, isOnlyShown });
  const { name, repository_url: repository } = said;
  if (typeof name !== 'string' || typeof repository !== 'string')
    throw new WrongUse(words`${file} needs a name and a repository_url to make a project of.`);
  const known = (await client.call('projects')).find((one) => one.owned && one.name === name);
  if (known) return apply(call, known, { document, file, isOnlyShown });
  screen.say(screen.paint(fit(words`+ project ${name}`, screen.columns), 'green'));
  if (isOnlyShown) {
    const what = words`project ${name}`;
    if (screen.isJson) screen.json({ applied: false, changes: [{ action: 'create', what, fields: [] }] });
    screen.say('    with everything in the file');
    return call.has('check') ? 1 : 0;
  }
  const made = await client.call('createProject', {}, { name, repository_url: repository });
  try {
    await apply(call, made, { document, file, isOnlyShown });
  } catch (error) {
    await client.call('deleteProject', { project_id: made.id_str });
    throw error;
  }
  screen.say('Install its public key in the repository, so that it can be fetched:');
  screen.say(clean(made.ssh_public_key));
}

interface Applied {
  document: string;
  file: string;
  isOnlyShown: boolean;
}

async function apply(call: Call, project: Project, { document, file, isOnlyShown }: Applied): Promise<number> {
  const { client, screen } = call;
  const place = { project_id: project.id_str };
  const { changes } = await client.call('configure', place, { document, dry_run: true });
  if (!screen.isJson) show(screen, changes, project.name);
  const deletions = changes.filter(({ action }) => action === 'delete').length;
  if (!isOnlyShown && deletions > 0 && !call.has('prune'))
    throw new WrongUse(
      `This would delete ${deletions === 1 ? 'something' : `${deletions} things`}. If that is meant, add --prune. Nothing was changed.`,
    );
  if (isOnlyShown) {
    if (screen.isJson) screen.json({ applied: false, changes });
    return call.has('check') && changes.length > 0 ? 1 : 0;
  }
  // Also where nothing changes: the server remembers the file, with its order, for export.
  const made = await client.call('configure', place, { document, prune: call.has('prune') });
  if (screen.isJson) screen.json(made);
  else if (made.changes.length > 0) {
    showSecrets(screen, made.changes);
    screen.say(words`${project.name} is as ${file} says.`);
  }
  return 0;
}

/** Of what was made: a server shows them this once. */
function showSecrets(screen: Screen, changes: readonly Change[]): void {
  for (const { what, secret, url } of changes) {
    if (secret === undefined) continue;
    screen.say(words`The ${what} has this secret, which is not shown again:`);
    if (what.startsWith('hook ') && url !== undefined) screen.say(words`    address: ${url}`);
    screen.say(words`    secret: ${secret}`);
  }
}

async function contentOf(file: string): Promise<string> {
  try {
    return file === '-' ? await textOf(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    throw new WrongUse(words`Cannot read ${file}: ${(error as Error).message}`);
  }
}

const signs: Record<string, { sign: string; colour: Colour }> = {
  create: { sign: '+', colour: 'green' },
  change: { sign: '~', colour: 'yellow' },
  delete: { sign: '-', colour: 'red' },
};

function show(screen: Screen, changes: readonly Change[], project: string): void {
  if (changes.length === 0) return screen.say(words`Nothing to change in ${project}.`);
  const room = screen.columns;
  for (const { action, what, fields } of changes) {
    const { sign, colour } = signs[action] ?? { sign: '?', colour: 'dim' };
    screen.say(screen.paint(fit(`${sign} ${clean(what)}`, room), colour));
    for (const { name, from, to } of fields) {
      const text =
        name === 'content' ? 'content: another value' : words`${name}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`;
      screen.say(fit(`    ${text}`, room));
    }
  }
}
