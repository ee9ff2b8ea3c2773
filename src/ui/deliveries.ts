import type { Delivery, StatusDelivery } from '../records/notification.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { shortSha, table } from './parts.ts';
import { stateBadge, stateWord } from './states.ts';

/** The deliveries of a notification, with each attempt and the receiver's answers. */

export type DeliveryRecord = Delivery & Partial<Pick<StatusDelivery, 'context' | 'ref'>>;

type Attempt = DeliveryRecord['attempts'][number];

/** `formFor` makes the form that sends a delivery again, where that is possible. */
export function deliveriesTable(deliveries: readonly DeliveryRecord[], formFor?: (id: string) => PageForm): Html {
  if (deliveries.length === 0) return html`<p class="aside">Nothing was sent yet.</p>`;
  return table(
    'List of deliveries',
    ['Event', 'State', 'Attempts', ...(formFor ? ['Actions'] : [])],
    deliveries.map((delivery) => row(delivery, formFor?.(delivery.id_str))),
  );
}

function row(delivery: DeliveryRecord, form: PageForm | undefined): Html {
  const { id_str: id, type, state, created_at: at, attempts, context, ref = '' } = delivery;
  const what = context === undefined ? type : `${context}: ${stateWord(type.replace(/^build\./, ''))}`;
  return html`<tr id="delivery-${id}">
    <td>
      <code id="delivery-type-${id}">${what}</code><br />${ref !== '' && html`<code>${shortSha(ref)}</code>`} ${ago(at)}
    </td>
    <td>${stateBadge(state)}</td>
    <td>${attemptsCell(attempts)}</td>
    ${
      form &&
      html`<td class="number">
        ${state !== 'pending' && form.wrap(html``, { button: 'Send again', kind: 'quiet', describedBy: `delivery-type-${id}` })}
      </td>`
    }
  </tr>`;
}

/** The last attempt shows the result. Earlier ones can be opened. */
function attemptsCell(attempts: readonly Attempt[]): Html {
  const [last, ...earlier] = attempts.toReversed();
  if (!last) return html`None yet`;
  if (earlier.length === 0) return attemptLine(last);
  return html`${attemptLine(last)}
    <details class="attempt">
      <summary>${earlier.length === 1 ? '1 earlier attempt' : `${earlier.length} earlier attempts`}</summary>
      ${earlier.map(attemptLine)}
    </details>`;
}

function attemptLine({ status, duration_ms: ms, answer, error, created_at: at }: Attempt): Html {
  const outcome = status === null ? error : `${status}`;
  const summary = html`<strong>${outcome}</strong> after ${ms} ms, ${ago(at)}`;
  if (answer === '') return html`<p class="attempt">${summary}</p>`;
  return html`<details class="attempt">
    <summary>${summary}</summary>
    <pre tabindex="0" aria-label="What it answered">${answer}</pre>
  </details>`;
}
