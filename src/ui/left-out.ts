import { inWords, mostValues, shortened, type Reason } from '../lifecycle/left-out.ts';
import type { Rule } from '../lifecycle/rules.ts';
import { html, type Html } from './html.ts';

/** Why a suite was not run on a commit. */
export function whyLeftOut(reason: Reason): Html {
  return typeof reason === 'string' ? html`${inWords[reason]}` : ruleInWords(reason);
}

function ruleInWords({ rule, values }: { rule: Rule; values: readonly string[] }): Html {
  const shown = values.slice(0, mostValues).map((value) => html` <code>${shortened(value)}</code>`);
  const more = values.length > mostValues ? ` and ${values.length - mostValues} more` : '';
  const has = values.length === 0 ? html`the commit has none` : html`the commit has${shown}${more}`;
  return html`Its rule <code>${rule.subject} ${rule.operator.replaceAll('_', ' ')} ${shortened(rule.value)}</code> is
    not met: ${has}.`;
}
