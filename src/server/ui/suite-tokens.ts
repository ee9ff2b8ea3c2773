import { most } from '../../shared/domain/bounds.ts';
import { idTokenFields } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import type { Fields } from './forms.ts';
import { html, type Html } from './html.ts';
import { counted } from './parts.ts';
import { editable } from './suite-steps.ts';

const tokenForm = fieldTable(idTokenFields, {
  variable: { label: 'Variable', required: false, isCode: true, placeholder: 'CLOUD_TOKEN' },
  audience: {
    label: 'Audience',
    required: false,
    isCode: true,
    placeholder: 'sts.amazonaws.com',
    wrong: 'An audience is one word, such as a host name or an address.',
  },
});

/** Empty rows for new tokens, without scripts. Each save adds more. */
const emptyRows = 2;

const rightWords: Record<string, string> = { read: ', reads the API', write: ', reads the API and starts builds' };

export function tokensGroup(form: Fields<'id_tokens' | 'api_token'>): Html {
  const count = Math.min(most.idTokensOfSuite, form.count('id_tokens'));
  const rows = Array.from({ length: Math.min(most.idTokensOfSuite, count + emptyRows) }, (_, at) =>
    form.inside('id_tokens', at, tokenForm),
  );
  return form.group(
    ['id_tokens', 'api_token'],
    `Tokens: ${count === 0 ? 'none' : counted(count, 'identity token')}${rightWords[form.shown('api_token')] ?? ''}`,
    html`<p class="hint">
        Each variable contains a signed token that tells a cloud or another service which project, branch and commit is
        built. Builds of forks have none. A row without a variable and an audience does not count.
      </p>
      ${editable(
        { add: 'Add token', what: 'token', most: most.idTokensOfSuite },
        rows.map((row) => html`<div class="columns" data-row>${row.fields('variable', 'audience')}</div>`),
      )}
      ${form.field('api_token')}`,
  );
}
