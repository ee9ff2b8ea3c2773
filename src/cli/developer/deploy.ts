import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { followRecord } from './follow-record.ts';
import { choose, findCommit } from './project.ts';
import { words } from './text.ts';

export async function run(
  call: Call<{ follow?: true; rollback?: true }>,
  named: string,
  commitNamed?: string,
): Promise<number | void> {
  const { client, screen, options } = call;
  if (options.rollback && commitNamed !== undefined)
    throw new WrongUse('--rollback chooses the commit that was deployed before. Remove the commit from the command.');
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const strategy = choose(project, 'deploy strategy', await client.call('strategies', inProject), named);
  const commit = commitNamed === undefined ? undefined : await findCommit(call, project, commitNamed);
  const fields = { deploy_strategy_id: strategy.id_str, commit_id: commit?.id_str, rollback: options.rollback };
  const deploy = await client.call('deploy', inProject, fields);
  if (options.follow) {
    const params = { ...inProject, deploy_id: deploy.id_str };
    return followRecord(call, 'deployEvents', params, {
      name: words`deploy ${deploy.id_str} to ${strategy.name}`,
      leaves: 'The deploy continues. The project’s page shows its result.',
      record: deploy,
    });
  }
  if (screen.isJson) return screen.json(deploy);
  const isHeld = deploy.state === 'waiting_for_approval';
  const progress = isHeld ? words`waits for approval: headrace approve ${deploy.id_str}` : 'has begun.';
  screen.print(words`Deploy ${deploy.id_str} to ${strategy.name} ${progress}`);
}
