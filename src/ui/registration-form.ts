import { longest } from '../lib/bounds.ts';
import { type ClientForm, type mistakesIn } from '../oauth/clients.ts';
import { outOfBand } from '../oauth/redirects.ts';
import { html, type Html } from './html.ts';
import { keyField, type Page } from './layout.ts';
import type { PersonVisit } from './site.ts';

/** The form for a user's own application. */

export type Mistakes = ReturnType<typeof mistakesIn>;

export function readForm({ formText }: PersonVisit): ClientForm {
  const redirectUris = formText('redirect_uris')
    .split(/\s+/)
    .filter((address) => address !== '');
  return { name: formText('name'), redirectUris };
}

function invalid(mistake: string | undefined): Html | false {
  return mistake !== undefined && html`aria-invalid="true"`;
}

function said(id: string, mistake: string | undefined): Html | false {
  return mistake !== undefined && html`<p class="mistake" id="${id}" role="alert">${mistake}</p>`;
}

/** Name and addresses, with their errors. */
export function fields({ name, redirectUris }: ClientForm, mistakes: Mistakes): Html {
  return html`<label for="name">Name</label>
    <p class="hint" id="name-hint">People see it when they are asked whether it may act for them.</p>
    <input
      id="name"
      name="name"
      type="text"
      required
      maxlength="${longest.applicationName}"
      value="${name}"
      aria-describedby="name-hint name-mistake"
      ${invalid(mistakes.name)}
    />
    ${said('name-mistake', mistakes.name)}
    <label for="redirect_uris">Redirect addresses</label>
    <p class="hint" id="redirects-hint">
      One per line, exactly as the application sends them. <code>${outOfBand}</code> shows the code to be copied.
    </p>
    <textarea
      id="redirect_uris"
      name="redirect_uris"
      class="code"
      rows="4"
      required
      spellcheck="false"
      aria-describedby="redirects-hint redirects-mistake"
      ${invalid(mistakes.redirectUris)}
    >
${redirectUris.join('\n')}</textarea>
    ${said('redirects-mistake', mistakes.redirectUris)}`;
}

export function newPage(formKey: string, form: ClientForm, mistakes: Mistakes, isPublic: boolean): Page {
  return {
    title: 'Register an application',
    status: Object.keys(mistakes).length > 0 ? 403 : 200,
    main: html`<h1>Register an application</h1>
      <form method="post" action="/ui/applications/new" class="card">
        ${keyField(formKey)} ${fields(form, mistakes)}
        <label class="check">
          <input type="checkbox" name="public" value="1" ${isPublic && html`checked`} />
          <span>It cannot keep a secret: people install it, or it runs in their browser. It then uses PKCE.</span>
        </label>
        <button class="main">Register</button>
      </form>`,
  };
}
