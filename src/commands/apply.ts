import { readFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import type { Answered } from '../client/operations.ts';
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
  const document = JSON.stringify(withValues(await readDocument(await contentOf(file), file), env));
  const project = await call.project();
  const place = { project_id: project.id_str };
  const { changes } = await client.call('configure', place, { document, dry_run: true });
  const isOnlyShown = call.has('dry-run') || call.has('check');
  if (!screen.isJson) show(screen, changes, project.name);
  const deletions = changes.filter(({ action }) => action === 'delete').length;
  if (!isOnlyShown && deletions > 0 && !call.has('prune'))
    throw new WrongUse(
      `This would delete ${deletions === 1 ? 'something' : `${deletions} things`}. If that is meant, add --prune. Nothing was changed.`,
    );
  if (isOnlyShown || changes.length === 0) {
    if (screen.isJson) screen.json({ applied: false, changes });
    return call.has('check') && changes.length > 0 ? 1 : 0;
  }
  const made = await client.call('configure', place, { document, prune: call.has('prune') });
  if (screen.isJson) return screen.json(made);
  screen.say(words`${project.name} is as ${file} says.`);
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
