import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onOneDatabase } from '../../support/databases.ts';
import { MailServer } from '../../support/mail-server.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

onOneDatabase((database) => {
  test('an invitation to an organisation goes by e-mail, to the person alone', async () => {
    await using mail = await MailServer.start();
    const settings = { smtp_url: mail.url, smtp_from: 'ci@example.org' };
    const service = new Service(database, { settings });
    await service.start();
    const [owner, member] = [await service.user(), await service.user()];
    const { id } = (await owner.post('/organisations', { name: 'rockets' })).record;
    const path = `/organisations/${id}/members`;
    const known = await owner.post(path, { email: member.email, role: 'viewer' });
    assert.deepEqual([known.record.invitation_url, known.record.mailed], ['', false]);
    const invited = await owner.post(path, { email: 'new@example.org', role: 'developer' });
    assert.equal(invited.record.mailed, true);

    const [letter, ...others] = await mail.letters(1);
    assert.deepEqual(others, []);
    assert.equal(letter?.headers.get('to'), 'new@example.org');
    assert.match(letter?.headers.get('subject') ?? '', /rockets/);
    const text = (letter?.body ?? '').replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=');
    const [link = ''] = /https:\S+\/ui\/invitation\?token=hri_[\w-]+/.exec(text) ?? [];
    assert.equal(link, invited.record.invitation_url);
    const { pathname, search } = new URL(link);
    assert.match((await new Tab(service).get(pathname + search)).text, /name="password"/);

    // The page says so too.
    const tab = new Tab(service);
    await tab.signIn(owner.credentials);
    const page = await tab.get('/ui/organisations/rockets');
    const fields = { do: 'invite', email: 'another@example.org', role: 'viewer' };
    const shown = await tab.submit(page, '/ui/organisations/rockets', fields);
    assert.match(shown.text, /another@example\.org has it by e-mail/);
  });
});
