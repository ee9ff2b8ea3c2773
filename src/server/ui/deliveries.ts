import type { PageOf } from '../http/paging.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Delivery, Receiver as ReceiverState, StatusDelivery } from '../../shared/records/notification.ts';
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
  projectPath: string;
}

export function receiverCard(
  { id, path, name, about, isDeletable, projectPath }: Receiver,
  { items, older }: PageOf<DeliveryRecord>,
  trouble: Html,
  formFor?: (delivery: string) => PageForm,
): Html {
  return html`<section class="card" aria-labelledby="receiver-${id}">
    <div class="title">
      <h3 id="receiver-${id}"><a href="${path}">${name}</a></h3>
      ${isDeletable && deletionButton(`${path}/delete`, `receiver-${id}`)}
    </div>
    <p class="aside">${about}</p>
    ${trouble}
    <div id="deliveries-${id}" data-live>
      ${deliveriesTable(items, projectPath, formFor)} ${older && html`<p><a href="${path}">All deliveries</a></p>`}
    </div>
  </section>`;
}

export function deliveriesPart(
  page: PageOf<DeliveryRecord>,
  { path, projectPath }: { path: string; projectPath: string },
  formFor?: (delivery: string) => PageForm,
): Html {
  return section(
    'deliveries',
    'Deliveries',
    html`<div id="deliveries" data-live>${deliveriesTable(page.items, projectPath, formFor)}</div>
      ${pagination(page, { path })}`,
  );
}

/** `formFor` makes the form that resends a delivery, if that is possible. */
function deliveriesTable(
  deliveries: readonly DeliveryRecord[],
  projectPath: string,
  formFor?: (id: string) => PageForm,
): Html {
  if (deliveries.length === 0) return html`<p class="aside">Nothing was sent yet.</p>`;
  return table(
    'List of deliveries',
    ['Event', 'State', 'Attempts', ...(formFor ? ['Actions'] : [])],
    deliveries.map((delivery) => row(delivery, projectPath, formFor?.(delivery.id_str))),
  );
}

function row(delivery: DeliveryRecord, projectPath: string, form: PageForm | undefined): Html {
  const { id_str: id, type, state, created_at: at, attempts, context } = delivery;
  const isState = context !== undefined && !/^(?:comment|pull_request)\./.test(type);
  const what = isState ? `${context}: ${stateWord(type.replace(/^build\./, ''))}` : (context ?? type);
  return html`<tr id="delivery-${id}">
    <td><code id="delivery-type-${id}">${what}</code><br />${subjectOf(delivery, projectPath)} ${ago(at)}</td>
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

/** The suite and the commit, with links if they are known. A report to a forge names its suite itself. */
function subjectOf(delivery: DeliveryRecord, projectPath: string): Html {
  const { build_id_str: build, suite_name: suite, variant, commit_id_str: commit, commit_ref, ref } = delivery;
  const sha = html`<code>${shortSha(ref ?? commit_ref)}</code>`;
  const name = delivery.context === undefined ? nameWithVariant(suite, variant) : 'Build';
  return html`${build !== '' && html`<a href="${projectPath}/builds/${build}">${name}</a>`}
  ${commit === '' ? (ref ?? '') !== '' && sha : html`<a href="${projectPath}/commits/${commit}">${sha}</a>`}`;
}

/** Says that the receiver takes nothing, as long as it does not. */
export function receiverTrouble(id: string, receiver: ReceiverState, form: PageForm): Html {
  const { failing_since: since, status, answer, error, tries, next_try_at: next, waiting } = receiver;
  if (since === null) return html`<div id="receiver-trouble-${id}" data-live></div>`;
  return html`<div id="receiver-trouble-${id}" data-live>
    <div class="notice bad receiver-trouble">
      <p>
        <strong>The receiver takes no calls.</strong> The first try failed ${ago(since)}.
        ${status === null ? html`The call failed: ${error}.` : html`It answered <strong>${status}</strong>${answer === '' ? '.' : ':'}`}
      </p>
      ${answer !== '' && html`<pre tabindex="0" aria-label="Response of the receiver">${answer}</pre>`}
      <p>
        ${counted(tries, 'try', 'tries')} so far.
        ${
          next === null
            ? 'The server has given up on this delivery. Send it again once the receiver works.'
            : html`Next try: ${ago(next)}. ${counted(waiting, 'delivery waits', 'deliveries wait')}.`
        }
      </p>
      ${next !== null && form.wrap(false, { button: 'Try now', kind: 'plain', describedBy: `receiver-trouble-${id}` })}
    </div>
  </div>`;
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
