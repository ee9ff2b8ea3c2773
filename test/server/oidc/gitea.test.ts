import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onOneDatabase } from '../../support/databases.ts';
import { startGitea, whyNoGitea, type Gitea } from '../../support/gitea.ts';
import { buttonOf, client, issuerSettings } from '../../support/issuer.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

/** A second issuer that others wrote, with pages of its own. */
onOneDatabase((database) => {
  let gitea: Gitea;
  before(async () => {
    if (whyNoGitea === false) gitea = await startGitea(database);
  });

  test('a Gitea signs its people in', { skip: whyNoGitea }, async () => {
    const application = await gitea.ask<{ client_id: string; client_secret: string }>(
      'POST',
      '/user/applications/oauth2',
      {
        name: 'Headrace',
        redirect_uris: [`${client.baseUrl}/ui/oidc/callback`],
        confidential_client: true,
        skip_secondary_authorization: true,
      },
    );
    const settings = issuerSettings(gitea.url, {
      oidc_client_id: application.client_id,
      oidc_client_secret: application.client_secret,
    });
    const service = new Service(database, { settings });
    await service.start();
    const tab = new Tab(service);
    const away = await tab.get(buttonOf(await tab.get('/ui/sign-in')));
    assert.equal(away.status, 302, away.text);
    const back = await new GiteaBrowser(gitea).authorize(away.headers.location ?? '');
    const arrived = await tab.get(back);
    assert.equal(arrived.status, 303, service.log.slice(-4000));
    const { email } = await gitea.ask<{ id: number; email: string }>('GET', '/user');
    assert.match((await tab.get('/ui/account')).text, new RegExp(email));
    const identity = await service.store.db.read.selectFrom('identities').selectAll().executeTakeFirstOrThrow();
    assert.ok(identity.look_at !== null, 'Gitea gave a refresh token');
  });
});

/** Signs in with a form of Gitea's, as a browser would. */
class GiteaBrowser {
  readonly #gitea: Gitea;
  readonly #cookies = new Map<string, string>();

  constructor(gitea: Gitea) {
    this.#gitea = gitea;
  }

  async authorize(address: string): Promise<string> {
    const form = { user_name: this.#gitea.user, password: 'boss-boss-1' };
    const page = await (await this.#ask(`${this.#gitea.url}/user/login`)).text();
    const [, token = ''] = /name="_csrf" value="([^"]+)"/.exec(page) ?? [];
    await this.#ask(`${this.#gitea.url}/user/login`, new URLSearchParams({ ...form, _csrf: token }));
    for (let at = address; ;) {
      const answer = await this.#ask(at);
      const location = answer.headers.get('location');
      if (location === null) {
        const text = await answer.text();
        const fields = Array.from(text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g));
        const sent = fields.map(([, name = '', value = '']): [string, string] => [
          name,
          value.replaceAll('&amp;', '&'),
        ]);
        assert.ok(sent.length > 0, `${at}: ${answer.status} ${text}`);
        const granted = new URLSearchParams([...sent, ['granted', 'true']]);
        const next = await this.#ask(`${this.#gitea.url}/login/oauth/grant`, granted);
        at = next.headers.get('location') ?? assert.fail(await next.text());
      } else at = new URL(location, at).href;
      if (at.startsWith(client.baseUrl)) return at.slice(client.baseUrl.length);
    }
  }

  async #ask(address: string, body?: URLSearchParams): Promise<Response> {
    const cookie = Array.from(this.#cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(address, {
      redirect: 'manual',
      headers: { cookie },
      ...(body && { method: 'POST', body }),
    });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      this.#cookies.set(name, value);
    }
    return answer;
  }
}
