import type { PageOf } from '../http/paging.ts';
import type { Delivery, StatusDelivery } from '../../shared/records/notification.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { counted, pagination, section, shortSha, table } from './parts.ts';
import { deletionButton } from './resource-pages.ts';
import { stateBadge, stateWord } from './states.ts';

export type DeliveryRecord = Delivery & Partial<Pick<StatusDelivery, 'context' | 'ref'>>;

type Attempt = DeliveryRecord['attempts'][number];

export const fewDeliveries = 5;

interface Receiver {
  id: string;
  path: string;
  name: string;
  about: string;
  isDeletable: boolean;
}

export function receiverCard(
  { id, path, name, about, isDeletable }: Receiver,
  { items, older }: PageOf<DeliveryRecord>,
  formFor?: (delivery: string) => PageForm,
): Html {
  return html`<section class="card" aria-labelledby="receiver-${id}">
    <div class="title">
      <h3 id="receiver-${id}"><a href="${path}">${name}</a></h3>
      ${isDeletable && deletionButton(`${path}/delete`, `receiver-${id}`)}
    </div>
    <p class="aside">${about}</p>
    <div id="deliveries-${id}" data-live>
      ${deliveriesTable(items, formFor)} ${older && html`<p><a href="${path}">All deliveries</a></p>`}
    </div>
  </section>`;
}

export function deliveriesPart(
  page: PageOf<DeliveryRecord>,
  path: string,
  formFor?: (delivery: string) => PageForm,
): Html {
  return section(
    'deliveries',
    'Deliveries',
    html`<div id="deliveries" data-live>${deliveriesTable(page.items, formFor)}</div>
      ${pagination(page, { path })}`,
  );
}

/** `formFor` makes the form that resends a delivery, if that is possible. */
function deliveriesTable(deliveries: readonly DeliveryRecord[], formFor?: (id: string) => PageForm): Html {
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
        ${state !== 'pending' && form.wrap(false, { button: 'Send again', kind: 'quiet', describedBy: `delivery-type-${id}` })}
      </td>`
    }
  </tr>`;
}

function attemptsCell(attempts: readonly Attempt[]): Html {
  const [last, ...earlier] = attempts.toReversed();
  if (!last) return html`None yet`;
  if (earlier.length === 0) return attemptLine(last);
  return html`${attemptLine(last)}
    <details class="attempt">
      <summary>${counted(earlier.length, 'earlier attempt')}</summary>
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
