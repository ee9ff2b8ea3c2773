import type { Hook } from '../../shared/records/trigger.ts';
import { readBitbucket } from './bitbucket.ts';
import { readGeneric } from './generic.ts';
import { readGithub } from './github.ts';
import { readGitlab } from './gitlab.ts';
import type { ProofForm } from './proofs.ts';
import type { Reader } from './payload-readers.ts';

export interface Provider {
  proofs: readonly ProofForm[];
  /** The header with the type of event. Blank if the payload contains it. */
  eventHeader: string;
  deliveryHeaders: readonly string[];
  /** The payload may come in a form's field `payload`. `signed` names the bytes under the signature. */
  form?: { signed: 'form' | 'payload' };
  read: Reader;
}

const hubSignature: ProofForm = { kind: 'hmac', header: 'x-hub-signature-256', prefix: 'sha256=' };

export const providers = {
  github: {
    proofs: [hubSignature],
    eventHeader: 'x-github-event',
    deliveryHeaders: ['x-github-delivery'],
    form: { signed: 'form' },
    read: readGithub('github'),
  },
  gitlab: {
    proofs: [{ kind: 'token', header: 'x-gitlab-token', prefix: /^/ }, { kind: 'standard' }],
    eventHeader: 'x-gitlab-event',
    deliveryHeaders: ['idempotency-key', 'webhook-id'],
    read: readGitlab,
  },
  gitea: {
    proofs: [hubSignature, { kind: 'hmac', header: 'x-gitea-signature', prefix: '' }],
    eventHeader: 'x-gitea-event',
    deliveryHeaders: ['x-gitea-delivery'],
    // Gitea and Forgejo sign the JSON, even when they send it in a form.
    form: { signed: 'payload' },
    read: readGithub('gitea'),
  },
  bitbucket: {
    proofs: [{ kind: 'hmac', header: 'x-hub-signature', prefix: 'sha256=' }],
    eventHeader: 'x-event-key',
    // The second is for Data Center.
    deliveryHeaders: ['x-request-uuid', 'x-request-id'],
    read: readBitbucket,
  },
  generic: {
    proofs: [{ kind: 'token', header: 'authorization', prefix: /^bearer +/i }, hubSignature],
    eventHeader: '',
    deliveryHeaders: ['idempotency-key'],
    read: readGeneric,
  },
} as const satisfies Record<Hook['provider'], Provider>;

export function providerOf({ provider }: Pick<Hook, 'provider'>): Provider {
  return providers[provider];
}
