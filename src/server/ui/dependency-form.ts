import type { OwnDependency } from '../../shared/records/dependency.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { PageVisit } from './pages.ts';
import { imageField } from './registries.ts';

type Choice = OwnDependency['related_dependencies'][number];

const usualPrefix = '/srv/dependency';
const sharedOffered = 100;

export async function dependencyFields(visit: PageVisit, form: PageForm, dependency?: OwnDependency): Promise<Html> {
  return html`${form.text('name', 'Name', { value: dependency?.name, required: true, maxlength: 255 })}
  ${form.area('command', 'Command', {
    value: dependency?.command,
    required: true,
    isCode: true,
    placeholder: `./configure --prefix=${usualPrefix} && make install`,
    hint: 'Run in the source. It has to name the prefix, and to leave there what suites are to have.',
    wrong: 'It does not name the prefix as a path, or it is too long.',
  })}
  ${form.text('prefix', 'Prefix', {
    value: dependency?.prefix ?? usualPrefix,
    isCode: true,
    hint: 'The directory that the software is made for, and stands at when suites use it.',
    wrong: 'A prefix is an absolute path without “.” and “..” in it.',
  })}
  ${form.text('source', 'Source', {
    value: dependency?.source,
    isCode: true,
    hint: 'The directory in the archive where the command runs; blank for its top.',
    wrong: 'This is no path inside an archive.',
  })}
  ${form.area('launch_command', 'Launch command', {
    value: dependency?.launch_command,
    isCode: true,
    rows: 2,
    hint: 'Run before the command of each suite that uses it, such as what starts a database. It may be blank.',
  })}
  ${form.area('description', 'Description', { value: dependency?.description, rows: 2 })}
  ${imageField(form, dependency?.image)} ${await relatedField(visit, dependency)}`;
}

/** Selected dependencies come first, in the order in which they are mounted. */
async function relatedField({ api, refused }: PageVisit, dependency?: OwnDependency): Promise<Html | undefined> {
  const named = dependency?.related_dependencies ?? [];
  const own = await api.get('/dependencies');
  const { items: shared } = await api.list('/marketplace', { query: { limit: sharedOffered } });
  const seen = new Set([dependency?.id_str, ...named.map(({ id_str: id }) => id)]);
  const fresh = (choices: Choice[]): Choice[] => choices.filter(({ id_str: id }) => !seen.has(id) && seen.add(id));
  const [others, sharedOnes] = [fresh(own), fresh(shared)];
  if (named.length + others.length + sharedOnes.length === 0) return undefined;
  const typed = refused?.typed.related_dependencies;
  const chosen = new Set(typed === undefined ? named.map(({ id_str: id }) => id) : [typed].flat());
  const codes = refused?.errors.related_dependencies ?? [];
  const boxes = (choices: Choice[], note = ''): Html[] =>
    choices.map(
      ({ id_str: id, name }) =>
        html`<label class="check">
          <input type="checkbox" name="related_dependencies[]" value="${id}" ${chosen.has(id) && html`checked`} />
          <span>${name}${note}</span>
        </label>`,
    );
  return html`<fieldset class="field">
    <legend>Compiled against</legend>
    <p class="hint">These stand at their prefixes when it is compiled, and beside it in suites.</p>
    <input type="hidden" name="related_dependencies[]" value="" />
    <div class="boxes">${boxes(named)} ${boxes(others)} ${boxes(sharedOnes, ' (shared)')}</div>
    ${
      codes.length > 0 &&
      html`<p class="mistake" role="alert">
        ${
          codes.includes('not_found')
            ? 'One of these is not there any more.'
            : 'One of these is itself compiled against this dependency, or there are too many.'
        }
      </p>`
    }
  </fieldset>`;
}
