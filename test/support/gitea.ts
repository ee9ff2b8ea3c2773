import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { TestDatabase } from './databases.ts';
import { folderFor } from './folders.ts';
import { freePort } from './ports.ts';
import { startReal, whyNo } from './real-servers.ts';
import { longestWait } from './pauses.ts';

/** Why there is no Gitea on this machine; false where there is one. */
export const whyNoGitea = whyNo('gitea', 'Gitea');

interface Told {
  url: string;
  user: string;
  password: string;
}

export interface GiteaItem {
  id: number;
  [field: string]: unknown;
}

/** A real Gitea on loopback: HTTP, and an SSH server on a port of its own. */
export interface Gitea {
  url: string;
  /** Its administrator. */
  user: string;
  /** Asks its API as somebody, the administrator if nobody else is named. Refusals are errors. */
  ask<T = GiteaItem>(method: string, path: string, body?: object, as?: string): Promise<T>;
  /** The commit that adds a file. */
  push(repository: string, file: string, more?: { as?: string; newBranch?: string }): Promise<string>;
  /** A new access token of the administrator. */
  token(...scopes: string[]): Promise<string>;
  /** What it has of a repository, as its administrator sees it. */
  installed(repository: string): Promise<{ keys: GiteaItem[]; hooks: GiteaItem[] }>;
  /** Waits for a status of a commit. */
  status(repository: string, sha: string, context: string, state: string): Promise<GiteaItem>;
}

const password = 'boss-boss-1';

export async function startGitea({ afterwards }: Pick<TestDatabase, 'afterwards'>): Promise<Gitea> {
  const folder = folderFor(afterwards);
  const ports = [await freePort(), await freePort()].map(String);
  const { told, kill } = await startReal('gitea', [folder, ...ports]);
  afterwards(kill);
  const { url, user, password: given } = told as Told;
  assert.equal(given, password);
  let tokens = 0;
  const ask = async <T>(method: string, path: string, body?: object, as = user): Promise<T> => {
    const authorization = `Basic ${Buffer.from(`${as}:${password}`).toString('base64')}`;
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return (text === '' ? {} : JSON.parse(text)) as T;
  };
  return {
    url,
    user,
    ask,
    async push(repository, file, { as = user, newBranch } = {}) {
      const content = Buffer.from(`${file} flows\n`).toString('base64');
      const body = { content, message: `Add ${file}`, ...(newBranch !== undefined && { new_branch: newBranch }) };
      const made = await ask<{ commit: { sha: string } }>('POST', `/repos/${repository}/contents/${file}`, body, as);
      return made.commit.sha;
    },
    async token(...scopes) {
      const name = `token ${(tokens += 1)}`;
      return (await ask<{ sha1: string }>('POST', `/users/${user}/tokens`, { name, scopes })).sha1;
    },
    installed: async (repository) => ({
      keys: await ask('GET', `/repos/${repository}/keys`),
      hooks: await ask('GET', `/repos/${repository}/hooks`),
    }),
    async status(repository, sha, context, state) {
      for (const began = Date.now(); ; await pause(100)) {
        const all = await ask<GiteaItem[]>('GET', `/repos/${repository}/statuses/${sha}`);
        const found = all.find((one) => one.context === context && one.status === state);
        if (found) return found;
        assert.ok(Date.now() - began < longestWait, `${context} is not ${state}: ${JSON.stringify(all)}`);
      }
    },
  };
}
