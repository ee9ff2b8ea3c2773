import type { Registry } from '../../shared/records/dependency.ts';
import { pageForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { page } from './pages.ts';
import { empty, table } from './parts.ts';
import { confirmation, deletionButton } from './project-pages.ts';
import { notFound, type PageRoute } from './site.ts';

const path = '/ui/account/registries';

export function imageField(form: PageForm, value: string | undefined): Html {
  return form.text('image', 'Image', {
    value,
    isCode: true,
    placeholder: 'registry.example.org/name:tag',
    hint: html`The container image in which it runs; blank for the programs of the runner's machine. Private ones need
      your credentials under <a href="${path}">registries</a>.`,
    wrong: 'This is no reference to an image, such as registry.example.org/name:tag or name@sha256:….',
  });
}

const list = page({
  path,
  showsSecrets: true,
  async show(visit) {
    const registries = await visit.api.get('/registries');
    const form = pageForm(visit, 'create');
    return {
      title: 'Registries',
      main: html`<p class="aside"><a href="/ui/account">Your account</a></p>
        <h1>Registries</h1>
        <div class="beside">
          <div>
            ${table('Registries', ['Host', 'User name', 'Actions'], registries.map(row), {
              none: empty(
                'No credentials yet',
                'Images that anybody may pull need none. For private ones, say who you are at their registry.',
              ),
            })}
          </div>
          ${form.wrap(
            html`${form.text('host', 'Host', {
              required: true,
              isCode: true,
              maxlength: 255,
              hint: html`As references name it, such as <code>registry.example.org:5000</code> or
                <code>docker.io</code>.`,
              wrong: 'This is no host of a registry. It has no https:// before it and no path behind it.',
            })}
            ${form.text('username', 'User name', {
              required: true,
              maxlength: 255,
              wrong: 'A user name has no colon in it.',
            })}
            ${form.text('password', 'Password', {
              type: 'password',
              required: true,
              autocomplete: 'new-password',
              hint: 'Or a token that may read. It is stored encrypted and never shown.',
            })}`,
            { button: 'Add registry', isCard: true, label: 'New registry' },
          )}
        </div>`,
    };
  },
  actions: { create: { route: 'POST /registries', done: () => ({ goTo: path, notice: 'added' }) } },
});

function row({ id_str: id, host, username }: Registry): Html {
  return html`<tr>
    <td id="registry-${id}"><code>${host}</code></td>
    <td>${username}</td>
    <td class="number">${deletionButton(`${path}/${id}/delete`, `registry-${id}`)}</td>
  </tr>`;
}

const deletion = page({
  path: `${path}/:registry_id/delete`,
  async show(visit) {
    const registries = await visit.api.get('/registries');
    const found = registries.find(({ id_str: id }) => id === visit.param('registry_id'));
    if (!found) return notFound;
    const title = `Delete the credentials for ${found.host}?`;
    const goes = html`<p>Images of <strong>${found.host}</strong> that need them cannot be pulled any more.</p>`;
    return { title, main: confirmation(visit, { title, goes, back: path }) };
  },
  actions: { delete: { route: 'DELETE /registries/:registry_id', done: () => ({ goTo: path, notice: 'deleted' }) } },
});

export const routes: PageRoute[] = [...list, ...deletion];
