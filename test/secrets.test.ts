import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { sql } from 'kysely';
import { insertLink } from '../src/server/auth/password-links.ts';
import { findUser } from '../src/server/auth/users.ts';
import { sealedLocation } from '../src/server/db/schema.ts';
import { registerApplication } from './support/applications.ts';
import { registered } from './support/registered.ts';
import { describeService, type Service } from './support/service.ts';
import { Tab } from './support/tab.ts';

/** Every file of the data folder, and every row of every table as text. */
async function everythingStored(service: Service): Promise<Map<string, Buffer>> {
  const stored = new Map<string, Buffer>();
  for (const name of readdirSync(service.folder, { recursive: true, encoding: 'utf8' })) {
    const file = join(service.folder, name);
    // The key of the certificate and the master key are there to be read by the service.
    if (statSync(file).isFile()) stored.set(name, readFileSync(file));
  }
  const { db } = service.store;
  const tables = await db.read.introspection.getTables();
  for (const { name } of tables) {
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(db.read);
    const values = rows.flatMap((row) => Object.values(row));
    const bytes = values.map((value) =>
      value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(String(value)),
    );
    stored.set(`table ${name}`, Buffer.concat(bytes));
  }
  return stored;
}

describeService('the store', (service) => {
  test('holds no secret in clear [promise: sealed-secrets]', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const contents = ['first-secret-content-71345', 'second-secret-content-90812', 'third-secret-content-55551'];
    const variables = `/projects/${project.id}/suites/${suite.id}/environment_variables`;
    const [first = '', second = '', third = ''] = contents;
    const { id } = await alice.createVariable(project, suite, { content: first });
    await alice.put(`${variables}/${id}`, { content: second });
    const key = { 'idempotency-key': 'once' };
    await alice.post(variables, { name: 'ANOTHER', content: third }, key);
    const notification = await alice.createNotification(project);
    const hook = { notifiable_type: 'build', name: 'webhook', 'options[url]': 'https://example.org/visible-address' };
    const kept = await alice.post(`/projects/${project.id}/notifications`, hook, { 'idempotency-key': 'twice' });

    const [ofForge, ofRegistry] = ['token-of-a-forge-48213', 'password-of-a-registry-90417'];
    await alice.createStatusTarget(project, { token: ofForge });
    await alice.createRegistry({ password: ofRegistry });
    const ofHook = String((await alice.post(`/projects/${project.id}/hooks`, { provider: 'gitlab' })).record.secret);
    const ofRunner = (await registered(service)).token;

    const application = await registerApplication(service, alice);
    const [accessToken, code, used] = [
      await application.token(alice, ['user']),
      await application.code(alice),
      await application.code(alice),
    ];
    const exchanged = String((await application.exchange({ code: used })).body.access_token);
    const tab = new Tab(service);
    await tab.signIn(alice.credentials);
    const { vault, db, ids } = service.store;
    const { id: userId = 0n } = (await findUser(db.read, alice.email)) ?? {};
    const { token: link } = await db.transaction((trx) => insertLink(trx, ids, userId));
    const row = await db.read.selectFrom('projects').selectAll().where('id', '=', project.id).executeTakeFirstOrThrow();
    const place = sealedLocation({ table: 'projects', column: 'ssh_private_key' }, project.id);
    const privateKey = vault.open(row.ssh_private_key, place);
    assert.match(privateKey, /^-----BEGIN OPENSSH PRIVATE KEY-----/);
    const secrets = {
      'the password': alice.credentials.password,
      'the API key': alice.credentials.api_key,
      'a private key': privateKey.split('\n')[3] ?? '',
      'the mark of private keys': 'OPENSSH PRIVATE KEY',
      'a public key': String(project.ssh_public_key).split(' ')[1] ?? '',
      'a client secret': application.secret ?? '',
      'an access token': accessToken,
      'an access token that was exchanged': exchanged,
      'a code': code,
      'a code that was used': used,
      'a session': tab.cookies.get('__Host-headrace_session') ?? '',
      'a link to set a password': link,
      'a webhook secret': String(notification.secret),
      'the token of a forge': ofForge,
      'the password of a registry': ofRegistry,
      'the secret of a hook': ofHook,
      'the token of a runner': ofRunner,
      'a webhook secret in a kept answer': String(kept.record.secret),
      ...Object.fromEntries(contents.map((content) => [`the content ${content}`, content])),
    };

    const stored = await everythingStored(service);
    const found = (text: string): string[] =>
      [...stored].filter(([, bytes]) => bytes.includes(text)).map(([name]) => name);
    // What is not secret is found: the search looks in the right places.
    assert.ok(found('visible-address').some((name) => name === 'table notifications'));
    for (const [what, secret] of Object.entries(secrets)) {
      assert.ok(secret.length >= 15, what);
      assert.deepEqual(found(secret), [], what);
    }
  });

  test('gives nobody who can write to the database a secret of another record [promise: sealed-secrets]', async () => {
    const [victim, attacker] = [await service.user(), await service.user()];
    const content = 'the-secret-of-somebody-else-22718';
    const owned = await victim.createProject();
    const { id } = await victim.createVariable(owned, await victim.createSuite(owned), { content });
    const project = await attacker.createProject();
    const suite = await attacker.createSuite(project);
    const own = await attacker.createVariable(project, suite, { content: 'own' });
    const { db } = service.store;
    const sealed = db.read.selectFrom('environment_variables').select('content').where('id', '=', id);
    const row = await sealed.executeTakeFirstOrThrow();
    await db.transaction((trx) =>
      trx.updateTable('environment_variables').set(row).where('id', '=', own.id).executeTakeFirstOrThrow(),
    );
    const shown = await attacker.get(`/projects/${project.id}/suites/${suite.id}/environment_variables`);
    assert.equal(shown.status, 500);
    assert.ok(!shown.text.includes(content) && !shown.text.includes(row.content));
  });
});
