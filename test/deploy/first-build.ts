import { setTimeout as pause } from 'node:timers/promises';
import { longestWait } from '../support/pauses.ts';

/** Runs a shell command on a machine, which has to succeed, and answers what it printed. */
export type Works = (command: string) => Promise<string>;

/** The user `git` of a machine, with the repository app.git. */
export const gitUser = `useradd --create-home --shell /usr/bin/git-shell git && usermod --password '*' git && mkdir -m 700 ~git/.ssh
  cd ~git && git init -q --bare -b main app.git && git clone -q app.git /tmp/work && cd /tmp/work
  git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first && git push -q origin HEAD:main; chown -R git: ~git`;

/** Lets a machine without systemd answer at git@127.0.0.1. */
export const sshd =
  'useradd --system sshd; mkdir -p /run/sshd; ssh-keygen -A >/dev/null && /usr/sbin/sshd -f /dev/null';

export const authorize = (key: string): string =>
  `echo '${key}' > ~git/.ssh/authorized_keys; chown git: ~git/.ssh/authorized_keys`;

/** The API of a server on a machine, called there with curl. Without a form it is a GET. */
export type Ask = <T>(path: string, ...form: string[]) => Promise<T>;

export function askAt(works: Works, address: string, curl: string): Ask {
  return async <T>(path: string, ...form: string[]) => {
    const fields = form.map((field) => `--data-urlencode '${field}'`).join(' ');
    const printed = await works(`curl -sS --fail-with-body ${curl} ${fields} ${address}${path}`);
    return (JSON.parse(printed) as { response: T }).response;
  };
}

/** Makes a project of the machine's own repository, and answers its path. */
export async function makeProject(works: Works, ask: Ask): Promise<string> {
  const form = ['name=app', 'repository_url=git@127.0.0.1:app.git'];
  const made = await ask<{ id_str: string; ssh_public_key: string }>('/projects', ...form);
  await works(authorize(made.ssh_public_key));
  return `/projects/${made.id_str}`;
}

/** Builds this command in a project, and answers how it ended and what it printed. */
export async function build(ask: Ask, path: string, command: string): Promise<{ state: string; log: string }> {
  await ask(`${path}/suites`, 'name=unit', `command=${command}`);
  const { id_str: id } = await ask<{ id_str: string }>(`${path}/build_requests`, 'commit_ref=main');
  let state = '';
  for (const began = Date.now(); Date.now() - began < longestWait; await pause(200)) {
    ({ build_state: state } = await ask<{ build_state: string }>(`${path}/build_requests/${id}`));
    if (['passed', 'failed', 'errored'].includes(state)) break;
  }
  const [commit] = await ask<{ id_str: string }[]>(`${path}/commits`);
  const [last] = await ask<{ id_str: string }[]>(`${path}/commits/${commit?.id_str}/builds`);
  const { text } = await ask<{ text: string }>(`${path}/builds/${last?.id_str}/log`);
  return { state, log: text };
}
