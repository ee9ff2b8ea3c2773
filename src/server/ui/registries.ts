import { registryFields, type Registry } from '../../shared/records/dependency.ts';
import { required, text } from '../../shared/records/fields.ts';
import { accountNavigation } from './account-pages.ts';
import { fieldTable, type FieldTexts } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { page, type PageVisit } from './pages.ts';
import { beside, empty, orMissing, table } from './parts.ts';
import { deletionButton, deletionPage } from './resource-pages.ts';
import type { PageRoute } from './site.ts';

const path = '/ui/account/registries';

export const imageTexts: FieldTexts = {
  label: 'Image',
  isCode: true,
  placeholder: 'registry.example.org/name:tag',
  hint: html`The container image in which it runs; blank for the programs of the runner's machine. Private ones need
    your credentials under <a href="${path}">registries</a>.`,
  wrong: 'This is no reference to an image, such as registry.example.org/name:tag or name@sha256:….',
};

export const registryForm = fieldTable(
  { ...registryFields, password: required(text('registryPassword')) },
  {
    host: {
      label: 'Host',
      isCode: true,
      hint: html`As references name it, such as <code>registry.example.org:5000</code> or <code>docker.io</code>.`,
      wrong: 'This is no host of a registry. It has no https:// before it and no path behind it.',
    },
    username: { label: 'User name', wrong: 'A user name has no colon in it.' },
    password: {
      label: 'Password',
      type: 'password',
      hint: 'Or a token that may read. It is stored encrypted and never shown.',
    },
  },
);

const list = page({
  path,
  showsSecrets: true,
  async show(visit) {
    const registries = await visit.api.get('/registries');
    const form = recordForm(visit, 'create', registryForm);
    const none = empty(
      'No credentials yet',
      'Images that anybody may pull need none. For private ones, say who you are at their registry.',
    );
    return {
      title: 'Registries',
      main: html`${accountNavigation(visit, path)}
        <h1>Registries</h1>
        ${beside(
          table('Registries', ['Host', 'User name', 'Actions'], registries.map(row), { none }),
          form.wrap(form.fields(), { button: 'Add registry', isCard: true, label: 'New registry' }),
        )}`,
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

const deletion = deletionPage({
  frame: page,
  path: `${path}/:registry_id/delete`,
  route: 'DELETE /registries/:registry_id',
  async read({ api, param }: PageVisit) {
    return orMissing((await api.get('/registries')).find(({ id_str: id }) => id === param('registry_id')));
  },
  question: ({ host }) => `Delete the credentials for ${host}?`,
  goes: ({ host }) => html`<p>Images of <strong>${host}</strong> that need them cannot be pulled any more.</p>`,
  back: () => path,
});

export const routes: PageRoute[] = [...list, ...deletion];
