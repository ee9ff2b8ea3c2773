import type { Call } from './command.ts';
import { WrongUse } from './errors.ts';
import { followRecord } from './follow-record.ts';
import { findCommit } from './project.ts';
import { words } from './text.ts';

export async function run(call: Call): Promise<number | void> {
  const { client, screen, args } = call;
  const [named = '', commitNamed] = args;
  const project = await call.project();
  const inProject = { project_id: project.id_str };
  const strategies = await client.call('strategies', inProject);
  const strategy = strategies.find(({ name }) => name === named) ?? strategies.find(({ id_str: id }) => id === named);
  if (!strategy) {
    const names = strategies.map(({ name }) => name).join(', ');
    throw new WrongUse(
      words`${project.name} has no deploy strategy ${named}. It has: ${names === '' ? 'none' : names}`,
    );
  }
  const commit = commitNamed === undefined ? undefined : await findCommit(client, project, commitNamed);
  const fields = { deploy_strategy_id: strategy.id_str, commit_id: commit?.id_str };
  const deploy = await client.call('deploy', inProject, fields);
  if (call.has('follow')) {
    const place = { ...inProject, deploy_id: deploy.id_str };
    return followRecord(call, 'deployEvents', place, {
      name: words`deploy ${deploy.id_str} to ${strategy.name}`,
      leaves: 'The deploy goes on. See the project’s page for how it ends.',
      record: deploy,
    });
  }
  if (screen.isJson) return screen.json(deploy);
  screen.say(words`Deploy ${deploy.id_str} to ${strategy.name} has begun.`);
}
