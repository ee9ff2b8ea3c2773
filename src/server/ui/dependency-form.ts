import { dependencyFields, type OwnDependency } from '../../shared/records/dependency.ts';
import { identifiers } from '../../shared/records/fields.ts';
import { fieldTable, type Choices, type NamesIn } from './controls.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { PageVisit } from './pages.ts';
import { imageTexts } from './registries.ts';

export const dependencyForm = fieldTable(
  { ...dependencyFields, related_dependencies: identifiers('relatedDependencies') },
  {
    name: { label: 'Name' },
    command: {
      label: 'Command',
      isCode: true,
      rows: 4,
      placeholder: `./configure --prefix=${dependencyFields.prefix.fallback} && make install`,
      hint: 'Run in the source. It has to name the prefix, and to leave there what suites are to have.',
      wrong: 'It does not name the prefix as a path, or it is too long.',
    },
    prefix: {
      label: 'Prefix',
      isCode: true,
      hint: 'The directory that the dependency is built for and mounted at in suites.',
      wrong: 'A prefix is an absolute path without “.” and “..” in it.',
    },
    source: {
      label: 'Source',
      isCode: true,
      hint: 'The directory in the archive where the command runs; blank for its top.',
      wrong: 'This is no path inside an archive.',
    },
    launch_command: {
      label: 'Launch command',
      isCode: true,
      rows: 2,
      hint: 'Run before the command of each suite that uses it, such as what starts a database. It may be blank.',
    },
    description: { label: 'Description', rows: 2 },
    image: imageTexts,
    related_dependencies: {
      label: 'Compiled against',
      hint: 'These are mounted at their prefixes during its compile, and alongside it in suites.',
      wrong: {
        not_found: 'One of these no longer exists.',
        invalid_format: 'One of these is itself compiled against this dependency, or there are too many.',
      },
    },
  },
);
type Name = NamesIn<typeof dependencyForm>;

const sharedOffered = 100;

export async function dependencyParts(
  visit: PageVisit,
  form: PageForm<Name>,
  dependency?: OwnDependency,
): Promise<Html> {
  const choices = await choicesOf(visit, dependency);
  const { related_dependencies: _, ...others } = dependencyForm.texts;
  return html`${form.fields(...(Object.keys(others) as Name[]))}
  ${choices.length > 0 && form.field('related_dependencies', { choices })}`;
}

/** Selected dependencies come first, in their mount order. */
async function choicesOf({ api }: PageVisit, dependency?: OwnDependency): Promise<Choices> {
  const named = dependency?.related_dependencies ?? [];
  const own = await api.get('/dependencies');
  const { items: shared } = await api.list('/marketplace', { query: { limit: sharedOffered } });
  const choices = new Map<string, string>();
  for (const { id_str: id, name } of [...named, ...own]) choices.set(id, name);
  for (const { id_str: id, name } of shared) if (!choices.has(id)) choices.set(id, `${name} (shared)`);
  if (dependency) choices.delete(dependency.id_str);
  return [...choices];
}
