import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestDatabase } from './databases.ts';
import type { Installation, Item, Project } from './installation.ts';
import { createRepository, type Repository } from './repository.ts';
import { startGitHost, type GitHost } from './sshd.ts';
import { growingPauses } from './pauses.ts';

/** The target of deploys: a repository on a separate host, with its own keys. */
export interface DeployTarget {
  host: GitHost;
  repository: Repository;
}

export async function startTarget(installation: Installation, database: TestDatabase): Promise<DeployTarget> {
  const host = await startGitHost({ name: 'live.test' });
  database.afterwards(() => host.close());
  await appendFile(installation.host.sshConfig, await readFile(host.sshConfig));
  return { host, repository: await createRepository(join(host.folder, 'live.git')) };
}

export interface Deploy extends Item {
  state: string;
  deploy_started_at: string | null;
  deploy_finished_at: string | null;
}

const unfinished = new Set(['enqueued', 'deploying']);

/** Actions on a project's deploys, named as a user would. */
export function deploying({ api, path }: Project, target: DeployTarget) {
  const look = (deploy: Item): Promise<Deploy> => api().get(`${path}/deploys/${deploy.id_str}`);
  const log = (deploy: Item): Promise<string> => api().text(`${path}/deploys/${deploy.id_str}/log.txt`);
  const ask = async (strategy: Item, commit?: Item): Promise<Deploy> => {
    const what = { deploy_strategy_id: strategy.id_str, ...(commit ? { commit_id: commit.id_str } : {}) };
    return (await api().post(`${path}/deploys`, what)) as Deploy;
  };
  const end = async (deploy: Item): Promise<Deploy> => {
    for (const wait = growingPauses(); ; await wait()) {
      const now = await look(deploy);
      if (!unfinished.has(now.state)) return now;
    }
  };
  return {
    look,
    log,
    ask,
    end,
    deploy: async (strategy: Item, commit?: Item) => end(await ask(strategy, commit)),
    cancel: (deploy: Item) => api().post(`${path}/deploys/${deploy.id_str}/cancel`),
    async untilLogged(deploy: Item, said: RegExp): Promise<void> {
      for (const wait = growingPauses(); !said.test(await log(deploy)); await wait());
    },
    /** From `main` to a branch of the target. */
    strategy: (remoteBranch: string): Promise<Item> =>
      api().post(`${path}/deploy_strategies`, {
        name: remoteBranch,
        strategy_type: 'git',
        'options[repository_url]': target.host.url('live.git'),
        'options[local_branch]': 'main',
        'options[remote_branch]': remoteBranch,
      }),
  };
}
