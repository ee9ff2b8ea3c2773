import { html, type Html } from './html.ts';
import { keyField } from './layout.ts';

interface PasskeyForm {
  formKey: string;
  action: string;
  kind: 'create' | 'get';
  /** For the browser's `navigator.credentials`. */
  options: object;
  button: string;
  fields?: Html;
  isMain?: boolean;
}

/** Its page has `hasPasskeys`: the script asks the authenticator and sends its answer. */
export function passkeyForm({ formKey, action, kind, options, button, fields, isMain = true }: PasskeyForm): Html {
  return html`<form method="post" action="${action}" data-passkey="${kind}" data-options="${JSON.stringify(options)}">
    ${keyField(formKey)}
    <input type="hidden" name="answer" value="" />
    ${fields}
    <p class="mistake" role="alert" data-failure hidden></p>
    <noscript><p class="hint">Passkeys need scripts, which your browser does not run here.</p></noscript>
    <button ${isMain && html`class="main"`}>${button}</button>
  </form>`;
}
