import assert from 'node:assert/strict';
import { createHmac, randomUUID } from 'node:crypto';
import type { Answer, Client, Record_ } from '../../support/client.ts';
import type { User } from '../../support/user.ts';
import { Webhook } from 'standardwebhooks';

/** What a forge sends: headers and body, signed as that forge signs it. */
export interface Sent {
  headers: Record<string, string>;
  body: string;
}

export type Signer = (secret: string, event: string, payload: unknown, delivery?: string) => Sent;

const hex = (secret: string, body: string | Uint8Array): string =>
  createHmac('sha256', secret).update(body).digest('hex');
const json = { 'content-type': 'application/json' };
const form = { 'content-type': 'application/x-www-form-urlencoded' };

const github: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const body = JSON.stringify(payload);
  const own = { 'x-github-event': event, 'x-github-delivery': delivery };
  return { headers: { ...json, ...own, 'x-hub-signature-256': `sha256=${hex(secret, body)}` }, body };
};

/** GitHub signs what it sends. */
const githubForm: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const own = { 'x-github-event': event, 'x-github-delivery': delivery };
  return { headers: { ...form, ...own, 'x-hub-signature-256': `sha256=${hex(secret, body)}` }, body };
};

const gitea: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const body = JSON.stringify(payload);
  const own = { 'x-gitea-event': event, 'x-gitea-delivery': delivery, 'x-github-event': event };
  return { headers: { ...json, ...own, 'x-gitea-signature': hex(secret, body) }, body };
};

/** Gitea signs the JSON, and puts it into a form afterwards. */
const giteaForm: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const text = JSON.stringify(payload);
  const own = { 'x-gitea-event': event, 'x-gitea-delivery': delivery };
  const body = new URLSearchParams({ payload: text }).toString();
  return { headers: { ...form, ...own, 'x-hub-signature-256': `sha256=${hex(secret, text)}` }, body };
};

const gitlab: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const own = { 'x-gitlab-event': event, 'idempotency-key': delivery, 'x-gitlab-token': secret };
  return { headers: { ...json, ...own }, body: JSON.stringify(payload) };
};

const gitlabSigned: Signer = (secret, event, payload, delivery = randomUUID()) =>
  standard(secret, event, payload, delivery, new Date());

export function standard(secret: string, event: string, payload: unknown, id: string, at: Date): Sent {
  const body = JSON.stringify(payload);
  const own = {
    'x-gitlab-event': event,
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': new Webhook(secret).sign(id, at, body),
  };
  return { headers: { ...json, ...own }, body };
}

const bitbucket: Signer = (secret, event, payload, delivery = randomUUID()) => {
  const body = JSON.stringify(payload);
  const own = { 'x-event-key': event, 'x-request-uuid': delivery };
  return { headers: { ...json, ...own, 'x-hub-signature': `sha256=${hex(secret, body)}` }, body };
};

const generic: Signer = (secret, _event, payload, delivery) => ({
  headers: {
    ...json,
    authorization: `Bearer ${secret}`,
    ...(delivery === undefined ? {} : { 'idempotency-key': delivery }),
  },
  body: JSON.stringify(payload),
});

const genericSigned: Signer = (secret, _event, payload) => {
  const body = JSON.stringify(payload);
  return { headers: { ...json, 'x-hub-signature-256': `sha256=${hex(secret, body)}` }, body };
};

export const sign = {
  github,
  githubForm,
  gitea,
  giteaForm,
  gitlab,
  gitlabSigned,
  bitbucket,
  generic,
  genericSigned,
};

export type Hook = Record_ & { secret: string; url: string };

/** Calls a hook as a forge does: without any credentials of the API. */
export function deliver(api: Client, hook: { id: bigint }, { headers, body }: Sent): Promise<Answer> {
  return api.post(`/hooks/${hook.id}`, { headers, body });
}

/** A project with a hook for each provider. */
export async function hooksOfAllProviders(
  owner: User,
): Promise<{ project: Record_; hookOf: (provider: string) => Hook }> {
  const project = await owner.createProject({ repository_url: 'git@example.org:team/code.git' });
  const hooks = new Map<string, Hook>();
  for (const provider of ['github', 'gitea', 'gitlab', 'bitbucket', 'generic']) {
    const made = await owner.post(`/projects/${project.id}/hooks`, { provider });
    assert.equal(made.status, 201);
    hooks.set(provider, made.record as Hook);
  }
  return { project, hookOf: (provider) => hooks.get(provider) ?? assert.fail(provider) };
}
