import { ApiError } from '../../shared/errors.ts';
import type { Commit } from '../../shared/records/commit.ts';
import type { DeployLine, DeployOverview } from '../../shared/records/deploy.ts';
import { identifier, required, text } from '../../shared/records/fields.ts';
import { groupOf, type RawGroup } from '../../shared/records/raw.ts';
import { fieldTable, type NamesIn } from './controls.ts';
import { hidden, recordForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import type { OpenPageVisit, PageVisit } from './pages.ts';
import { fact, shortSha, subjectOf } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { stateBadge, stateWord } from './states.ts';

export const deployForm = fieldTable(
  { deploy_strategy_id: required(identifier()), commit_id: identifier(), confirmation: text('name') },
  {
    deploy_strategy_id: { label: 'Strategy' },
    commit_id: { label: 'Commit' },
    confirmation: { label: 'Confirmation' },
  },
);
export type DeployForm = PageForm<NamesIn<typeof deployForm>>;

export async function commitOf({ api }: Pick<OpenPageVisit, 'api'>, id: bigint | string): Promise<Commit> {
  return api.get('/projects/:project_id/commits/:commit_id', { params: { commit_id: id } });
}

type ShownCommit = Pick<Commit, 'id_str' | 'ref' | 'message'>;

export function commitLink({ projectPath }: ProjectVisit, { id_str: id, ref, message }: ShownCommit): Html {
  return html`<a href="${projectPath}/commits/${id}"><code>${shortSha(ref)}</code> ${subjectOf(message)}</a>`;
}

/** A commit that has not passed is deployed only if a person types its state. */
const isGood = (state: string): boolean => state === 'passed';

/** Undefined if the form names none, or a wrong one. Then the API says what is wrong. */
async function namedCommit(visit: OpenPageVisit): Promise<Commit | undefined> {
  const id = visit.formText('commit_id').trim();
  if (!/^[0-9]{1,19}$/.test(id)) return undefined;
  try {
    return await commitOf(visit, id);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

/** The API deploys any commit that is named. A page asks first. */
export async function confirmDeploy(visit: PageVisit): Promise<void> {
  const commit = await namedCommit(visit);
  if (!commit || isGood(commit.build_state)) return;
  const typed = visit.formText('confirmation').trim().toLowerCase();
  if (typed !== stateWord(commit.build_state)) throw new ApiError('invalid_format', 'confirmation');
}

export function withoutConfirmation({ confirmation: _confirmation, ...form }: RawGroup): RawGroup {
  return groupOf(form);
}

export function confirmationField(form: DeployForm, { build_state: state }: Pick<Commit, 'build_state'>): Html | false {
  if (isGood(state)) return false;
  const word = stateWord(state);
  return form.field('confirmation', {
    hint: `The state of this commit is “${word}”. To deploy it all the same, type “${word}”.`,
    wrong: `Type “${word}” to deploy a commit with this state.`,
  });
}

/** The commit of a form that was refused. */
export async function askedCommit(visit: ProjectVisit): Promise<Commit | undefined> {
  return visit.refused?.action === 'deploy' ? namedCommit(visit) : undefined;
}

type Strategy = DeployOverview['strategies'][number];
interface Offered {
  overview: DeployOverview;
  asked: Commit | undefined;
}

export function strategyCard(visit: ProjectVisit, strategy: Strategy, offered: Offered): Html {
  const { id_str: id, name, deployed, last_deploys: last } = strategy;
  const card = `strategy-${id}`;
  const newest = last[0];
  const isNews = newest !== undefined && newest.id_str !== deployed?.id_str;
  return html`<section class="card deploy-card" id="${card}" aria-labelledby="${card}-title">
    <h2 id="${card}-title">${name}</h2>
    <p class="aside">${target(strategy)}</p>
    <div id="${card}-now" data-live>
      <dl class="facts">
        ${fact('Deployed now', deployed?.commit ? commitLink(visit, deployed.commit) : 'nothing yet')}
        ${deployed !== null && deployed.deploy_finished_at !== null && fact('Since', ago(deployed.deploy_finished_at))}
        ${deployed !== null && fact('By', deployed.created_by)}
      </dl>
      ${
        isNews &&
        html`<p class="row">
          ${stateBadge(newest.state)}
          <a href="${visit.projectPath}/deploys/${newest.id_str}"
            >${newest.commit ? subjectOf(newest.commit.message) : 'deploy'}</a
          >
          <span class="aside">${ago(newest.created_at)} by ${newest.created_by}</span>
        </p>`
      }
    </div>
    ${deployPart(visit, strategy, offered)} ${rollbackPart(visit, strategy)}
    <details id="${card}-history" data-live>
      <summary>History</summary>
      ${last.length === 0 ? html`<p class="aside">Nothing was deployed by it yet.</p>` : history(visit, last)}
    </details>
  </section>`;
}

function target({ options, suite_name: suite }: Strategy): Html {
  return options.remote_branch === undefined
    ? html`runs the suite ${suite}`
    : html`<code>${options.local_branch}</code> to <code>${options.remote_branch}</code> of
        <code>${options.clone_url}</code>`;
}

function history(visit: ProjectVisit, deploys: readonly DeployLine[]): Html {
  return html`<ul class="rows compact">
    ${deploys.map(
      ({ id_str: id, state, commit, created_at: at, created_by: by }) =>
        html`<li>
          <a href="${visit.projectPath}/deploys/${id}">${stateBadge(state)}</a>
          ${commit !== null && commitLink(visit, commit)}
          <span class="aside">${ago(at)} by ${by}</span>
        </li>`,
    )}
  </ul>`;
}

function deployPart(visit: ProjectVisit, { id_str: id, name }: Strategy, { overview, asked }: Offered): Html {
  const form = recordForm(visit, 'deploy', deployForm, undefined, { deploy_strategy_id: id });
  const commits: readonly Pick<Commit, 'id_str' | 'ref' | 'message' | 'build_state'>[] =
    asked && !overview.commits.some((one) => one.id_str === asked.id_str)
      ? [...overview.commits, asked]
      : overview.commits;
  const field = form.field('commit_id', {
    choices: [
      ['', 'The newest that passed'],
      ...commits.map(
        ({ id_str: commit, ref, message, build_state: state }) =>
          [commit, `${shortSha(ref)} ${subjectOf(message).slice(0, 80)} (${stateWord(state)})`] as const,
      ),
    ],
  });
  const isRefused = asked !== undefined && visit.formText('deploy_strategy_id') === id;
  return form.wrap(html`${field} ${isRefused && confirmationField(form, asked)}`, {
    button: 'Deploy',
    isInline: true,
    label: `Deploy by ${name}`,
  });
}

function rollbackPart(visit: ProjectVisit, { id_str: id, name, deployed_before: before }: Strategy): Html | false {
  // A refused form is shown again with its reason, also if there is nothing to go back to.
  const isRefused = visit.refused?.action === 'roll_back' && visit.formText('deploy_strategy_id') === id;
  if (!before && !isRefused) return false;
  const form = recordForm(visit, 'roll_back', deployForm, undefined, { deploy_strategy_id: id });
  const to =
    before !== null &&
    before.commit !== null &&
    html`<span>Before: <code>${shortSha(before.commit.ref)}</code> ${subjectOf(before.commit.message)}</span>`;
  return form.wrap(html`${hidden('rollback', 'true')} ${to}`, {
    button: 'Roll back',
    kind: 'plain',
    isInline: true,
    label: `Roll back ${name}`,
  });
}
