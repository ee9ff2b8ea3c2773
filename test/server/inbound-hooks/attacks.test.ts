import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { before, test } from 'node:test';
import type { Answer, Record_ } from '../../support/client.ts';
import { assertRefused } from '../../support/expect.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { deliver, hooksOfAllProviders, sign, standard, type Hook, type Sent } from './forge.ts';
import { bitbucket, github, gitlab, sha } from './payloads.ts';
import { longestWait } from '../../support/pauses.ts';

const hex = (secret: string | Buffer, body: string): string => createHmac('sha256', secret).update(body).digest('hex');

describeServiceOnOne('a caller of a hook', (service) => {
  let owner: User;
  let project: Record_;
  let hookOf: (provider: string) => Hook;
  before(async () => {
    owner = await service.user();
    ({ project, hookOf } = await hooksOfAllProviders(owner));
  });
  const call = (hook: Hook, sent: Sent): Promise<Answer> => deliver(service.api, hook, sent);
  const deliveriesOf = async (hook: Hook): Promise<Record_[]> =>
    (await owner.get(`/projects/${project.id}/hooks/${hook.id}/deliveries`)).list;
  const countRequests = async (): Promise<number> =>
    (await owner.get(`/projects/${project.id}/build_requests?limit=1000`)).list.length;

  test('without the proof, or with one of another secret, another hook or other bytes, gets 401 [promise: hook-proof]', async () => {
    const before_ = await countRequests();
    const other = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'github' })).record as Hook;
    const payloads: Record<string, [keyof typeof sign, string, unknown][]> = {
      github: [
        ['github', 'push', github.push()],
        ['githubForm', 'push', github.push()],
      ],
      gitea: [
        ['gitea', 'push', github.push()],
        ['giteaForm', 'push', github.push()],
      ],
      gitlab: [
        ['gitlab', 'Push Hook', gitlab.push()],
        ['gitlabSigned', 'Push Hook', gitlab.push()],
      ],
      bitbucket: [['bitbucket', 'repo:push', bitbucket.push()]],
      generic: [
        ['generic', '', { ref: 'main' }],
        ['genericSigned', '', { ref: 'main' }],
      ],
    };
    const proofs =
      /^(x-hub-signature|x-hub-signature-256|x-gitea-signature|x-gitlab-token|webhook-signature|authorization)$/;
    for (const [provider, ways] of Object.entries(payloads)) {
      const hook = hookOf(provider);
      for (const [signer, event, payload] of ways) {
        const right = sign[signer](hook.secret, event, payload);
        const proof = Object.keys(right.headers).find((name) => proofs.test(name)) ?? assert.fail(signer);
        const value = right.headers[proof] ?? '';
        const withProof = (changed: string): Sent => ({ ...right, headers: { ...right.headers, [proof]: changed } });
        const { [proof]: _, ...bare } = right.headers;
        const wrong: Record<string, Sent> = {
          'no proof': { ...right, headers: bare },
          'another hook’s secret': sign[signer](other.secret, event, payload),
          'an empty secret': sign[signer](signer === 'gitlabSigned' ? `whsec_${'A'.repeat(44)}` : '', event, payload),
          'a blank proof': withProof(''),
          'a short proof': withProof(value.slice(0, -1)),
          'a long proof': withProof(`${value}0`),
          'a proof in another case': withProof(
            value
              .toUpperCase()
              .replace('SHA256', 'sha256')
              .replace(/[0-9A-F]$/, '_'),
          ),
          // Of signatures there may be several with blanks between them; of nothing else.
          'a proof twice': withProof(`${value},${value}`),
          'the proof of nothing': withProof(value.replace(/[0-9a-f]{64}$/, hex(hook.secret, ''))),
        };
        if (!['gitlab', 'generic'].includes(signer)) {
          wrong['other bytes'] = { ...right, body: right.body.replace('main', 'mine') };
          wrong['one byte more'] = { ...right, body: `${right.body} ` };
        }
        for (const [what, sent] of Object.entries(wrong)) {
          if (sent.headers[proof] === value && sent.body === right.body) continue;
          const answer = await call(hook, sent);
          assert.equal(answer.status, 401, `${signer}: ${what}`);
          assertRefused(answer, 401, { generic: ['unauthorized'] });
        }
        assert.equal((await call(hook, right)).status, 202, signer);
      }
    }
    assert.equal(await countRequests(), before_ + 9, 'only what was right');
  });

  test('is not let in by credentials of the API, nor by a proof that another provider has [promise: hook-proof]', async () => {
    const body = JSON.stringify({ ref: 'main' });
    const hook = hookOf('github');
    const headers = { 'content-type': 'application/json', 'x-github-event': 'push' };
    const asOwner = await service.api.post(`/hooks/${hook.id}`, { as: owner.credentials, headers, body });
    assertRefused(asOwner, 401, { generic: ['unauthorized'] });
    for (const foreign of [
      { authorization: `Bearer ${hook.secret}` },
      { 'x-gitlab-token': hook.secret },
      { 'x-gitea-signature': hex(hook.secret, body) },
      { 'x-hub-signature': `sha256=${hex(hook.secret, body)}` },
      { 'x-hub-signature-256': `sha1=${hex(hook.secret, body)}` },
    ]) {
      assertRefused(await call(hook, { headers: { ...headers, ...foreign }, body }), 401, {
        generic: ['unauthorized'],
      });
    }
    for (const id of ['0', '12345', 'x', `${hook.id}0`]) {
      assertRefused(await service.api.post(`/hooks/${id}`, { headers, body }), 404, { generic: ['not_found'] });
    }
  });

  test('cannot use what GitLab signed long ago, or for another moment [promise: hook-proof]', async () => {
    const hook = hookOf('gitlab');
    const minutes = (count: number): Date => new Date(Date.now() + count * 60_000);
    for (const at of [minutes(-6), minutes(6)]) {
      const old = standard(hook.secret, 'Push Hook', gitlab.push(), 'an old one', at);
      assertRefused(await call(hook, old), 401, { generic: ['unauthorized'] });
      const moved = { ...old.headers, 'webhook-timestamp': String(Math.floor(Date.now() / 1000)) };
      assertRefused(await call(hook, { ...old, headers: moved }), 401, { generic: ['unauthorized'] });
    }
    const right = standard(hook.secret, 'Push Hook', gitlab.push(), 'a new one', minutes(-4));
    const renamed = { ...right.headers, 'webhook-id': 'another name' };
    assertRefused(await call(hook, { ...right, headers: renamed }), 401, { generic: ['unauthorized'] });
    // While a secret is replaced there are several signatures; one of them has to be right.
    const several = `v1,${'A'.repeat(43)}= v1a,x ${right.headers['webhook-signature'] ?? ''}`;
    assert.equal(
      (await call(hook, { ...right, headers: { ...right.headers, 'webhook-signature': several } })).status,
      202,
    );
  });

  test('is told of in the deliveries also where the proof was wrong, in one line for all of them [promise: hook-bounds]', async () => {
    const hook = (await owner.post(`/projects/${project.id}/hooks`, { provider: 'github' })).record as Hook;
    const wrong = sign.github('guess', 'push', github.push());
    await Promise.all(Array.from({ length: 50 }, () => call(hook, wrong)));
    const deadline = Date.now() + longestWait;
    let told = await deliveriesOf(hook);
    while (told.length === 0 && Date.now() < deadline) {
      await new Promise((resolve) => void setTimeout(resolve, 200));
      told = await deliveriesOf(hook);
    }
    assert.equal(told.length, 1);
    assert.equal(told[0]?.['outcome'], 'refused');
    assert.match(String(told[0]?.['reason']), /^The proof was missing or wrong: \d+ calls? since .*:00 UTC\.$/);
    const replayed = await owner.post(`/projects/${project.id}/hooks/${hook.id}/deliveries/${told[0]?.id}/replay`);
    assert.equal(replayed.record['outcome'], 'refused');
  });

  test('that sends nonsense is answered at once, and the delivery is recorded [promise: hook-bounds]', async () => {
    const hook = hookOf('github');
    const raw = (body: string | Buffer, event = 'push'): Sent => ({
      headers: {
        'content-type': 'application/json',
        'x-github-event': event,
        'x-hub-signature-256': `sha256=${createHmac('sha256', hook.secret).update(body).digest('hex')}`,
      },
      body: body as string,
    });
    const push = github.push();
    const json = (changed: object): Sent => raw(JSON.stringify({ ...push, ...changed }));
    const pull = (changed: object): Sent =>
      raw(JSON.stringify({ ...github.pull(), ...changed, action: 'opened' }), 'pull_request');
    const invalid: [string, Sent, Record<string, string[]>][] = [
      ['nothing', raw(''), { generic: ['invalid_format'] }],
      ['no JSON', raw('{"ref":'), { generic: ['invalid_format'] }],
      ['JSON that is cut off', raw(JSON.stringify(push).slice(0, -1)), { generic: ['invalid_format'] }],
      ['a list', raw('[]'), { generic: ['invalid_format'] }],
      ['null', raw('null'), { generic: ['invalid_format'] }],
      [
        'what is no UTF-8',
        raw(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])),
        { generic: ['invalid_format'] },
      ],
      ['brackets', raw('['.repeat(1_000_000)), { generic: ['invalid_format'] }],
      ['deep objects', raw(`${'{"a":'.repeat(1000)}1${'}'.repeat(1000)}`), { generic: ['invalid_format'] }],
      ['far too many values', raw(`[${'{},'.repeat(2_500_000)}{}]`), { generic: ['invalid_format'] }],
      ['no ref', json({ ref: undefined }), { ref: ['is_blank'] }],
      ['a ref that is a list', json({ ref: ['refs/heads/x'] }), { ref: ['is_blank'] }],
      ['a ref with a line break', json({ ref: 'refs/heads/x\r\nrefs/heads/y' }), { ref: ['invalid_format'] }],
      ['a ref with NUL', json({ ref: 'refs/heads/x\0' }), { ref: ['invalid_format'] }],
      ['an option', json({ ref: '--upload-pack=touch /tmp/x' }), { ref: ['invalid_format'] }],
      ['a way out', json({ ref: 'refs/heads/../../config' }), { ref: ['invalid_format'] }],
      ['a long ref', json({ ref: `refs/heads/${'x'.repeat(600)}` }), { ref: ['invalid_format'] }],
      ['no SHA', json({ after: undefined }), { after: ['is_blank'] }],
      ['a SHA that is none', json({ after: '--exec' }), { after: ['invalid_format'] }],
      ['half a SHA', json({ after: sha.slice(0, 20) }), { after: ['invalid_format'] }],
      ['a SHA that is a number', json({ after: 7 }), { after: ['is_blank'] }],
      ['a prototype', raw('{"__proto__":{"ref":"refs/heads/x","after":"x"}}'), { ref: ['is_blank'] }],
      ['no pull request', pull({ number: null, pull_request: null }), { 'pull_request[number]': ['invalid_format'] }],
      [
        'one with a strange number',
        pull({ number: 1.5, pull_request: {} }),
        { 'pull_request[number]': ['invalid_format'] },
      ],
      ['no event', raw('{}', ''), { x_github_event: ['is_blank'] }],
    ];
    for (const [what, sent, errors] of invalid) {
      const answer = await call(hook, sent);
      assert.equal(answer.status, 403, `${what}: ${answer.text.slice(0, 200)}`);
      assert.deepEqual(answer.body, { error: errors }, what);
      const [newest] = await deliveriesOf(hook);
      assert.equal(newest?.['outcome'], 'refused', what);
      assert.ok(String(newest?.['reason']).length > 10 && String(newest?.['reason']).length < 400, what);
    }
    assert.ok(!JSON.stringify((await deliveriesOf(hook)).map(({ reason }) => reason)).includes('\\u0000'));
    const fields = await call(hookOf('generic'), sign.generic(hookOf('generic').secret, '', { sha }));
    assertRefused(fields, 403, { ref: ['is_blank'] });
  });

  test('that gives itself a strange name changes nothing by it', async () => {
    const hook = hookOf('github');
    const names: [unknown, string][] = [
      ['\u202eevil\u0000\r\nX-Admin: 1', 'evil X-Admin: 1'],
      ['x'.repeat(100_000), 'x'.repeat(255)],
      ['\ud800', '\ufffd'],
      [{ toString: 'x' }, 'octocat'],
    ];
    for (const [login, shown] of names) {
      const payload = { ...github.push(), sender: { login } };
      const answer = await call(hook, sign.github(hook.secret, 'push', payload));
      assert.equal(answer.record['outcome'], 'build_requested');
      const request = `/projects/${project.id}/build_requests/${String(answer.record['build_request_id_str'])}`;
      const { record } = await owner.get(request);
      assert.deepEqual([record['sender'], record['created_by']], [shown, `hook:${hook.id}`]);
    }
  });

  test('that asks for a fork is treated as one, whatever the payload claims elsewhere [promise: hook-forks]', async () => {
    const hook = hookOf('github');
    const its = await owner.put(`/projects/${project.id}`, { fork_builds: 'approval' });
    assert.equal(its.status, 200, its.text);
    const pull = github.pull({ head: 'stranger/code' });
    const repo = pull.pull_request.head.repo ?? assert.fail();
    const claims = [
      pull,
      { ...pull, sender: { login: owner.email, type: 'Admin' }, installation: { id: 1 } },
      { ...pull, pull_request: { ...pull.pull_request, head: { ...pull.pull_request.head, repo: null } } },
      {
        ...pull,
        pull_request: { ...pull.pull_request, head: { ...pull.pull_request.head, repo: { ...repo, fork: false } } },
      },
      {
        ...pull,
        pull_request: {
          ...pull.pull_request,
          author_association: 'OWNER',
          head: { ...pull.pull_request.head, repo: { ...repo, full_name: 'team/code' } },
        },
      },
    ];
    for (const claim of claims) {
      const answer = await call(hook, sign.github(hook.secret, 'pull_request', claim));
      assert.equal(answer.record['outcome'], 'waiting_for_approval', answer.text);
      const request = `/projects/${project.id}/build_requests/${String(answer.record['build_request_id_str'])}`;
      assert.equal((await owner.get(request)).record['from_fork'], true);
    }
    await owner.put(`/projects/${project.id}`, { fork_builds: 'never' });
    const never = await call(hook, sign.github(hook.secret, 'pull_request', pull));
    assert.match(String(never.record['reason']), /fork_builds of the project is never/);
    await owner.put(`/projects/${project.id}`, { fork_builds: 'without_secrets' });
  });
});
