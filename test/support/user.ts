import assert from 'node:assert/strict';
import type { Credentials } from '../../src/server/auth/users.ts';
import type { Answer, Asking, Client, Record_ } from './client.ts';

type Form = NonNullable<Asking['form']>;

let counter = 0;

/** A name that nothing else in this process has. */
export function freshName(kind: string): string {
  counter += 1;
  return `${kind} ${counter}`;
}

/** A user of the service, and the user's actions. */
export class User {
  readonly api: Client;
  readonly credentials: Credentials;
  readonly email: string;

  constructor(api: Client, credentials: Credentials) {
    this.api = api;
    this.credentials = credentials;
    this.email = credentials.email;
  }

  get(path: string): Promise<Answer> {
    return this.api.get(path, { as: this.credentials });
  }

  post(path: string, form: Form = {}, headers: Record<string, string> = {}): Promise<Answer> {
    return this.api.post(path, { as: this.credentials, form, headers });
  }

  put(path: string, form: Form = {}): Promise<Answer> {
    return this.api.put(path, { as: this.credentials, form });
  }

  delete(path: string): Promise<Answer> {
    return this.api.delete(path, { as: this.credentials });
  }

  upload(dependency: { id: bigint }, body: Uint8Array, headers: Record<string, string> = {}): Promise<Answer> {
    return this.api.post(`/dependencies/${dependency.id}/archive`, { as: this.credentials, body, headers });
  }

  async createProject(fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created('/projects', {
      name: freshName('project'),
      repository_url: 'git@example.org:team/code.git',
      ...fields,
    });
  }

  async createSuite(project: Record_, fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created(`/projects/${project.id}/suites`, { name: freshName('suite'), command: 'make', ...fields });
  }

  async createVariable(project: Record_, suite: Record_, fields: Record<string, string> = {}): Promise<Record_> {
    const path = `/projects/${project.id}/suites/${suite.id}/environment_variables`;
    return this.#created(path, { name: freshName('V').replace(' ', '_'), content: 'something', ...fields });
  }

  async createDependency(fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created('/dependencies', {
      name: freshName('dependency'),
      command: './configure --prefix=/srv/dependency && make install',
      ...fields,
    });
  }

  async createStrategy(project: Record_, fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created(`/projects/${project.id}/deploy_strategies`, {
      name: freshName('strategy'),
      strategy_type: 'git',
      'options[repository_url]': 'deploy@example.org:live.git',
      'options[local_branch]': 'main',
      'options[remote_branch]': 'production',
      ...fields,
    });
  }

  async createNotification(project: Record_, fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created(`/projects/${project.id}/notifications`, {
      notifiable_type: 'build',
      name: 'webhook',
      'options[url]': 'http://127.0.0.1:9/nobody-listens-here',
      ...fields,
    });
  }

  async createStatusTarget(project: Record_, fields: Record<string, string> = {}): Promise<Record_> {
    return this.#created(`/projects/${project.id}/status_targets`, {
      provider: 'github',
      api_url: 'http://127.0.0.1:9/nobody-listens-here',
      repository: 'team/code',
      token: 'a-token-of-the-forge',
      ...fields,
    });
  }

  async createRegistry(fields: Record<string, string> = {}): Promise<Record_> {
    const form = { host: 'registry.example.org', username: 'puller', password: 'password-of-a-registry', ...fields };
    return this.#created('/registries', form);
  }

  async requestBuild(project: Record_, commitRef = 'main'): Promise<Record_> {
    return this.#created(`/projects/${project.id}/build_requests`, { commit_ref: commitRef });
  }

  async invite(project: Record_, person: { email: string }): Promise<Record_> {
    return this.#created(`/projects/${project.id}/collaborators`, { email: person.email });
  }

  async #created(path: string, form: Record<string, string>): Promise<Record_> {
    const answer = await this.post(path, form);
    assert.equal(answer.status, 201, answer.text);
    return answer.record;
  }
}
