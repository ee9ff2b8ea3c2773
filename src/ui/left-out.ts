import type { Reason } from '../lifecycle/left-out.ts';
import { inWords, type Unmet } from '../lifecycle/rules.ts';
import { html, type Html } from './html.ts';

/** Why a suite was not run on a commit. */
export function whyLeftOut(reason: Reason): Html {
  return typeof reason === 'string' ? html`${reason}` : ruleInWords(reason);
}

function ruleInWords({ rule, values, count }: Unmet): Html {
  const shown = values.map((value) => html` <code>${value}</code>`);
  const more = count > values.length ? ` and ${count - values.length} more` : '';
  const has = count === 0 ? html`the commit has none` : html`the commit has${shown}${more}`;
  return html`Its rule <code>${inWords(rule)}</code> is not met: ${has}.`;
}
