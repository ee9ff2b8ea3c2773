import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeServiceOnOne } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';

describeServiceOnOne('an upload that a script of a page sends', (service) => {
  test('comes with the key of a form of this very visitor, from our own page [promise: browser-credentials]', async () => {
    const alice = await service.user();
    const bob = await service.user();
    const dependency = await alice.createDependency();
    const keys: string[] = [];
    const tabs: Tab[] = [];
    for (const person of [alice, bob]) {
      const tab = new Tab(service);
      await tab.signIn(person.credentials);
      const { text } = await tab.get('/ui/dependencies/new');
      keys.push(/name="form_key" value="([^"]+)"/.exec(text)?.[1] ?? assert.fail('the page has no form key'));
      tabs.push(tab);
    }
    const [hers = '', his = ''] = keys;
    const [tab = assert.fail(), other = assert.fail()] = tabs;
    const address = `/ui/data/dependencies/${dependency.id}/uploads`;
    const begin = async (by: Tab, headers: Record<string, string>): Promise<number> =>
      (await by.post(address, { size: '1000' }, headers)).status;
    assert.equal(await begin(tab, {}), 401);
    assert.equal(await begin(tab, { 'x-form-key': his }), 401);
    assert.equal(await begin(tab, { 'x-form-key': hers, 'sec-fetch-site': 'cross-site' }), 401);
    assert.equal(await begin(new Tab(service), { 'x-form-key': hers }), 401);
    assert.equal(await begin(other, { 'x-form-key': his }), 404, 'another account’s dependency is not there');
    const uploads = service.store.db.read.selectFrom('archive_uploads').select('id');
    assert.deepEqual(await uploads.execute(), []);
    assert.equal(await begin(tab, { 'x-form-key': hers, 'sec-fetch-site': 'same-origin' }), 200);
  });
});
