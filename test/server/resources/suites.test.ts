import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testsOnOne } from '../../support/databases.ts';
import { assertCreated, assertDestroyed, assertNotFound, assertWrongFields } from '../../support/expect.ts';
import { describeService } from '../../support/service.ts';

const fields =
  'id id_str name description command steps services tags image root builds_images api_token id_tokens reports timeout allow_failure retries retry_on resume matrix matrix_include ' +
  'matrix_exclude matrix_allow_failure reuse inputs ignore_variables reuse_days uses_request cache cache_save annotations artifacts needs files_from_id files_from_name files_from ' +
  'approval approvers manual concurrency_group priority files_from_id_str';

describeService('suites', (service, database) => {
  const testOnOne = testsOnOne(database);
  test('are created, fetched, listed oldest first, changed and deleted', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const path = `/projects/${project.id}/suites`;
    const answer = await alice.post(path, { name: 'unit', command: 'make\ntest' });
    assertCreated(answer, fields);
    const suite = answer.record;
    assert.deepEqual(
      { ...suite },
      { ...suite, name: 'unit', command: 'make\ntest', description: '', tags: [], cache: [], reports: [] },
    );
    assert.deepEqual((await alice.get(`${path}/${suite.id}`)).record, suite);
    const second = await alice.createSuite(project);
    assert.deepEqual((await alice.get(path)).list, [suite, second]);
    const changed = await alice.put(`${path}/${suite.id}`, { command: 'true' });
    assert.deepEqual(changed.record, { ...suite, command: 'true' });
    assert.deepEqual((await alice.get(`${path}/${suite.id}`)).record, changed.record);
    assertDestroyed(await alice.delete(`${path}/${suite.id}`));
    assertNotFound(await alice.get(`${path}/${suite.id}`));
    assert.deepEqual((await alice.get(path)).list, [second]);
  });

  test('have a name that is unique in their project', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const suite = await alice.createSuite(project, { name: 'unit' });
    await alice.createSuite(other, { name: 'unit' });
    const second = await alice.createSuite(project);
    const path = `/projects/${project.id}/suites`;
    const wrong = await alice.post(path, { name: 'unit' });
    assertWrongFields(wrong, { name: 'already_exists', command: 'is_blank' });
    assertWrongFields(await alice.put(`${path}/${second.id}`, { name: 'unit' }), { name: 'already_exists' });
    assert.equal((await alice.put(`${path}/${suite.id}`, { name: 'unit' })).status, 200);
  });

  test('are not found under another project', async () => {
    const alice = await service.user();
    const [project, other] = [await alice.createProject(), await alice.createProject()];
    const suite = await alice.createSuite(project);
    const path = `/projects/${other.id}/suites/${suite.id}`;
    assertNotFound(await alice.get(path));
    assertNotFound(await alice.put(path, { name: '' }));
    assertNotFound(await alice.delete(path));
    assertNotFound(await alice.get(`${path}/dependencies`));
    assertNotFound(await alice.post(`${path}/environment_variables`, { name: 'A', content: 'b' }));
    assert.equal((await alice.get(`/projects/${project.id}/suites/${suite.id}`)).status, 200);
  });

  testOnOne('refuse names and commands that are too long or cannot be held', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/suites`;
    const tooLong = { name: 'n'.repeat(256), command: 'c'.repeat(65_537), description: 'd\0' };
    const wrong = { name: 'invalid_format', command: 'invalid_format', description: 'invalid_format' };
    assertWrongFields(await alice.post(path, tooLong), wrong);
    assertWrongFields(await alice.post(path, { name: 'two\nlines', command: 'true' }), { name: 'invalid_format' });
    const longest = await alice.post(path, { name: 'n'.repeat(255), command: 'c'.repeat(65_536) });
    assert.equal(longest.status, 201);
  });

  test('have steps in place of a command', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/suites`;
    const json = (body: object): Parameters<typeof alice.api.post>[1] => ({
      as: alice.credentials,
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    // Rows in which nothing was typed do not count, and numbers say the order.
    const form = {
      'steps[10][name]': 'tidy',
      'steps[10][command]': 'rm -r out',
      'steps[10][when]': 'always',
      'steps[2][name]': 'test',
      'steps[2][command]': 'make\ntest',
      'steps[3][name]': ' ',
      'steps[3][command]': '',
      'steps[3][when]': 'failed',
    };
    const steps = [
      { name: 'test', command: 'make\ntest', when: 'passed' },
      { name: 'tidy', command: 'rm -r out', when: 'always' },
    ];
    const made = await alice.post(path, { name: 'stepwise', ...form });
    assertCreated(made, fields);
    assert.deepEqual([made.record.command, made.record.steps], ['', steps]);
    const own = `${path}/${made.record.id}`;
    assert.deepEqual((await alice.put(own, { description: 'd', command: '' })).record.steps, steps);
    const commanded = (await alice.put(own, { command: 'true' })).record;
    assert.deepEqual([commanded.command, commanded.steps], ['true', []]);
    const [first] = steps;
    const stepwise = (await alice.api.put(own, json({ steps: [{ name: 'test', command: 'make\ntest' }] }))).record;
    assert.deepEqual([stepwise.command, stepwise.steps], ['', [first]]);
    assert.deepEqual((await alice.get(own)).record, stepwise);
    const many = Array.from({ length: 51 }, () => first);
    assert.equal((await alice.api.put(own, json({ steps: many.slice(1) }))).status, 200);
    const wrongs: [object, Record<string, string>][] = [
      [{ command: 'true', steps }, { command: 'invalid_format' }],
      [{ command: '', steps: [] }, { command: 'is_blank' }],
      [{ steps: [] }, { command: 'is_blank' }],
      [{ steps: many }, { steps: 'invalid_format' }],
      [{ steps: 'make' }, { steps: 'invalid_format' }],
      [{ steps: { one: first } }, { steps: 'invalid_format' }],
      [
        { steps: [first, 'make', null, 7] },
        { 'steps[1]': 'invalid_format', 'steps[2]': 'invalid_format', 'steps[3]': 'invalid_format' },
      ],
      [{ steps: [first, {}] }, { 'steps[1][name]': 'is_blank', 'steps[1][command]': 'is_blank' }],
      [{ steps: [{ ...first, when: 'never' }] }, { 'steps[0][when]': 'invalid_format' }],
      [
        { steps: [{ ...first, name: 'a\nb', shell: 'zsh' }] },
        { 'steps[0][name]': 'invalid_format', 'steps[0][shell]': 'invalid_format' },
      ],
      [{ steps: [{ ...first, command: 'x'.repeat(65_537) }] }, { 'steps[0][command]': 'invalid_format' }],
    ];
    for (const [body, wrong] of wrongs) assertWrongFields(await alice.api.put(own, json(body)), wrong);
    assertWrongFields(await alice.put(own, { 'steps[7][name]': 'n', 'steps[x][name]': 'n' }), {
      steps: 'invalid_format',
    });
    assertWrongFields(await alice.put(own, { 'steps[7][name]': 'n' }), { 'steps[7][command]': 'is_blank' });
    assertWrongFields(await alice.post(path, { name: 'none' }), { command: 'is_blank' });
    assertWrongFields(await alice.post(path, { name: 'both', command: 'true', ...form }), {
      command: 'invalid_format',
    });
    assert.equal(((await alice.get(own)).record.steps as object[]).length, 50);
  });

  test('have services that run beside their builds', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/suites`;
    const dependency = await alice.createDependency();
    const others = await (await service.user()).createDependency();
    const json = (body: object): Parameters<typeof alice.api.post>[1] => ({
      as: alice.credentials,
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    const db = {
      name: 'db',
      image: 'postgres:16',
      dependency_id: null,
      dependency_id_str: '',
      command: '',
      variables: [
        { name: 'POSTGRES_PASSWORD', content: '', from: 'DB_PASSWORD' },
        { name: 'LANG', content: 'C', from: '' },
      ],
      ready_port: 5432,
      ready_command: '',
      ready_timeout: 60,
      prepare: 'psql -f schema.sql',
      prepare_inputs: ['schema.sql', 'db/**'],
      data: ['/var/lib/postgresql/data'],
    };
    // As a form sends it, with places in which nothing was typed.
    const made = await alice.post(path, {
      name: 'beside',
      command: 'true',
      'services[0][name]': 'db',
      'services[0][image]': 'postgres:16',
      'services[0][dependency_id]': '',
      'services[0][variables][0][name]': 'POSTGRES_PASSWORD',
      'services[0][variables][0][from]': 'DB_PASSWORD',
      'services[0][variables][1][name]': 'LANG',
      'services[0][variables][1][content]': 'C',
      'services[0][variables][2][name]': '',
      'services[0][variables][2][content]': '',
      'services[0][ready_port]': '5432',
      'services[0][ready_timeout]': '',
      'services[0][prepare]': 'psql -f schema.sql',
      'services[0][prepare_inputs][]': 'schema.sql\ndb/**',
      'services[0][data][]': '/var/lib/postgresql/data',
      'services[1][name]': '',
      'services[1][variables][0][name]': '',
      'services[1][data][]': '',
    });
    assertCreated(made, fields);
    assert.deepEqual(made.record.services, [db]);
    const own = `${path}/${made.record.id}`;
    assert.deepEqual((await alice.get(own)).record, made.record);
    const compiled = { name: 'queue', dependency_id: String(dependency.id), command: 'queued -v', ready_timeout: 5 };
    const changed = (await alice.api.put(own, json({ services: [compiled] }))).record.services as (typeof db)[];
    assert.deepEqual(
      changed.map((one) => [one.name, one.image, one.dependency_id, one.dependency_id_str, one.ready_port, one.data]),
      [['queue', '', dependency.id, String(dependency.id), 0, []]],
    );
    assert.deepEqual((await alice.put(own, { description: 'd' })).record.services, changed);
    // Services can be sent back as they are answered, also by a client whose numbers have no 64 bits.
    const rounded = changed.map((service) => ({ ...service, dependency_id: Number(service.dependency_id) }));
    assert.deepEqual((await alice.api.put(own, json({ services: rounded }))).record.services, changed);
    const inSecond = [{ ...db, name: 'first' }, ...rounded];
    assert.deepEqual((await alice.api.put(own, json({ services: inSecond }))).record.services, [
      inSecond[0],
      ...changed,
    ]);
    const form = { 'services[0][name]': 'queue', 'services[0][dependency_id_str]': '', 'services[0][image]': 'redis' };
    assert.equal((await alice.put(own, form)).status, 200);
    const one = { name: 'db', image: 'a' };
    const at = (field: string, code: string, place = 0) => ({ [`services[${place}][${field}]`]: code });
    const wrongs: [object, Record<string, string>][] = [
      [{ ...one, name: '' }, at('name', 'is_blank')],
      ...['Db', '1db', 'd_b', 'db.local', '-db', 'd b', 'localhost', 'build', 'x'.repeat(64), 'db\n127.0.0.1 evil'].map(
        (name): [object, Record<string, string>] => [{ ...one, name }, at('name', 'invalid_format')],
      ),
      [{ name: 'db' }, at('image', 'is_blank')],
      [{ ...one, image: 'A B' }, at('image', 'invalid_format')],
      [{ ...one, dependency_id: String(dependency.id) }, at('image', 'invalid_format')],
      [{ name: 'db', dependency_id: String(dependency.id) }, at('command', 'is_blank')],
      [{ name: 'db', dependency_id: 'x', command: 'x' }, at('dependency_id', 'invalid_format')],
      [{ ...one, ready_port: 65_536 }, at('ready_port', 'invalid_format')],
      [{ ...one, ready_timeout: 0 }, at('ready_timeout', 'invalid_format')],
      [{ ...one, data: ['var/lib'] }, at('data', 'invalid_format')],
      [{ ...one, data: ['/'] }, at('data', 'invalid_format')],
      [{ ...one, data: ['/a/../etc'] }, at('data', 'invalid_format')],
      [{ ...one, data: ['/a', '/a/b'] }, at('data', 'invalid_format')],
      [{ ...one, prepare_inputs: ['/etc/*'] }, at('prepare_inputs', 'invalid_format')],
      [{ ...one, variables: [{ name: '1' }] }, at('variables][0][name', 'invalid_format')],
      [{ ...one, variables: [{ name: 'CI', content: 'x' }] }, at('variables][0][name', 'is_reserved')],
      [{ ...one, variables: [{ name: 'A', content: 'x', from: 'B' }] }, at('variables][0][from', 'invalid_format')],
      [{ ...one, variables: [{ name: 'A' }, { name: 'A' }] }, at('variables][1][name', 'already_exists')],
      [{ ...one, port: 1 }, at('port', 'invalid_format')],
      [{ name: 'db', dependency_id: '7', dependency_id_str: '8', command: 'x' }, at('dependency_id', 'invalid_format')],
      // All mistakes at once.
      [
        { name: 'D', ready_port: -1, variables: [{ name: '1' }, { name: 'A' }, { name: 'A' }] },
        {
          ...at('name', 'invalid_format'),
          ...at('image', 'is_blank'),
          ...at('ready_port', 'invalid_format'),
          ...at('variables][0][name', 'invalid_format'),
          ...at('variables][2][name', 'already_exists'),
        },
      ],
    ];
    for (const [body, wrong] of wrongs) assertWrongFields(await alice.api.put(own, json({ services: [body] })), wrong);
    const foreign = { name: 'db', dependency_id: String(others.id), command: 'x' };
    const refused = await alice.api.put(own, json({ services: [foreign] }));
    assert.deepEqual([refused.status, refused.body.error], [404, { 'services[0][dependency_id]': ['not_found'] }]);
    // What is wrong is told of all services at once, by the places that were sent.
    const blanks = { 'services[0][name]': '', 'services[2][name]': 'q', 'services[2][command]': 'x' };
    const third = await alice.put(own, { ...blanks, 'services[2][dependency_id]': String(others.id) });
    assert.deepEqual(third.body.error, { 'services[2][dependency_id]': ['not_found'] });
    const several = [
      { ...foreign, ready_port: -1 },
      one,
      '',
      { ...foreign, name: 'db' },
      { name: 'D', dependency_id: 'x', command: 'x' },
    ];
    const all = await alice.api.put(own, json({ services: several, timeout: 'x' }));
    assert.deepEqual(all.body.error, {
      timeout: ['invalid_format'],
      'services[0][dependency_id]': ['not_found'],
      'services[0][ready_port]': ['invalid_format'],
      'services[1][name]': ['already_exists'],
      'services[3][name]': ['already_exists'],
      'services[3][dependency_id]': ['not_found'],
      'services[4][name]': ['invalid_format'],
      'services[4][dependency_id]': ['invalid_format'],
    });
    assertWrongFields(await alice.api.put(own, json({ services: [one, one] })), at('name', 'already_exists', 1));
    const many = Array.from({ length: 11 }, (_, index) => ({ ...one, name: `db${index}` }));
    assertWrongFields(await alice.api.put(own, json({ services: many })), { services: 'invalid_format' });
    assert.equal((await alice.api.put(own, json({ services: many.slice(1) }))).status, 200);
    assert.deepEqual((await alice.put(own, { 'services[]': '' })).record.services, []);
  });

  testOnOne('have an image, which is a reference or blank', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    assert.equal(suite.image, '');
    const own = `/projects/${project.id}/suites/${suite.id}`;
    const digest = `sha256:${'0f'.repeat(32)}`;
    const good = ['alpine', 'debian:12', 'localhost/a', '127.0.0.1:5000/team/app:v1.2_3', `r.example.org/a@${digest}`];
    for (const image of [...good, `r.example.org/a/b__c-d:x@${digest}`, '[::1]:5000/app'])
      assert.equal((await alice.put(own, { image })).record.image, image);
    const bad = [
      '-a',
      'UPPER',
      'a b',
      'https://r.example.org/a',
      'docker://a',
      'a:',
      'a:-b',
      'a/../b',
      '/a',
      'a/',
      'a@sha256:00',
    ];
    for (const image of [...bad, 'r.example.org:99999/a', 'a;b', 'a\nb', `a@md5:${'0'.repeat(32)}`, 'a/'.repeat(300)])
      assertWrongFields(await alice.put(own, { image }), { image: 'invalid_format' });
    assert.equal((await alice.put(own, { image: ' ' })).record.image, '');
    // Only in an image somebody can be root.
    assertWrongFields(await alice.put(own, { root: 'true' }), { root: 'invalid_format' });
    assertWrongFields(await alice.post(own.replace(/\/\d+$/, ''), { name: 'r', command: 'c', root: 'true' }), {
      root: 'invalid_format',
    });
    assertWrongFields(await alice.put(own, { image: 'a', root: 'perhaps' }), { root: 'invalid_format' });
    assert.equal((await alice.put(own, { image: 'a', root: 'true' })).record.root, true);
    assertWrongFields(await alice.put(own, { image: '' }), { root: 'invalid_format' });
    assert.equal((await alice.put(own, { image: '', root: 'false' })).record.root, false);
    assert.equal((await alice.put(own, { root: '' })).record.root, null);
  });

  test('have tags, sorted and each once, that a change replaces or leaves', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/suites`;
    const suite = { name: 'tagged', command: 'true' };
    const body = JSON.stringify({ ...suite, tags: ['gpu', 'a.b_c:d-1', 'GPU', 'gpu', ''] });
    const headers = { 'content-type': 'application/json' };
    const made = await alice.api.post(path, { as: alice.credentials, body, headers });
    assert.deepEqual(made.record.tags, ['GPU', 'a.b_c:d-1', 'gpu']);
    const own = `${path}/${made.record.id}`;
    assert.deepEqual((await alice.put(own, { description: 'd' })).record.tags, ['GPU', 'a.b_c:d-1', 'gpu']);
    assert.deepEqual((await alice.put(own, { 'tags[]': 'arm, ssd  gpu' })).record.tags, ['arm', 'gpu', 'ssd']);
    assert.deepEqual((await alice.get(own)).record.tags, ['arm', 'gpu', 'ssd']);
    const many = Array.from({ length: 17 }, (_, at) => `t${at}`);
    assert.equal((await alice.put(own, { 'tags[]': many.slice(1).join(' ') })).status, 200);
    for (const tags of [many.join(' '), 'a'.repeat(65), '-a', 'a$b', 'a`b', "a'b", 'a/b', 'a\nb', 'é', 'a\0'])
      assertWrongFields(await alice.put(own, { 'tags[]': tags }), { tags: 'invalid_format' });
    assertWrongFields(await alice.put(own, { tags: 'gpu' }), { tags: 'invalid_format' });
    assert.deepEqual((await alice.put(own, { 'tags[]': '' })).record.tags, []);
  });

  test('say what a result stands on, and whether and how long it is reused', async () => {
    const alice = await service.user();
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    const path = `/projects/${project.id}/suites/${suite.id}`;
    const ofReuse = async () => {
      const {
        reuse,
        inputs,
        ignore_variables: ignored,
        reuse_days: days,
        uses_request,
      } = (await alice.get(path)).record;
      return [reuse, inputs, ignored, days, uses_request];
    };
    assert.deepEqual(await ofReuse(), ['off', [], [], 30, false]);
    await alice.put(path, {
      reuse: 'on',
      'inputs[]': 'src\n*.json\nsrc',
      'ignore_variables[]': 'B\nA\nB',
      reuse_days: '365',
      uses_request: 'true',
    });
    assert.deepEqual(await ofReuse(), ['on', ['src', '*.json'], ['B', 'A'], 365, true]);
    for (const wrong of [
      { reuse: 'always' },
      { inputs: ['../x'] },
      { inputs: ['/etc'] },
      { ignore_variables: ['1A'] },
      { ignore_variables: ['A B'] },
      { reuse_days: '0' },
      { reuse_days: '366' },
      { uses_request: 'maybe' },
    ]) {
      const sent = Object.entries(wrong).map(([name, one]) => [Array.isArray(one) ? `${name}[]` : name, String(one)]);
      const [[name]] = Object.entries(wrong) as [[string, unknown]];
      assertWrongFields(await alice.put(path, Object.fromEntries(sent)), { [name]: 'invalid_format' });
    }
    await alice.put(path, { 'inputs[]': '', 'ignore_variables[]': '' });
    assert.deepEqual(await ofReuse(), ['on', [], [], 365, true]);
  });

  test('have patterns of reports, in the order sent, that a change replaces or leaves', async () => {
    const alice = await service.user();
    const path = `/projects/${(await alice.createProject()).id}/suites`;
    const made = await alice.post(path, { name: 'reporting', command: 'true', 'reports[]': 'z/*.xml' });
    assert.deepEqual(made.record.reports, ['z/*.xml']);
    const own = `${path}/${made.record.id}`;
    assert.deepEqual((await alice.put(own, { description: 'd' })).record.reports, ['z/*.xml']);
    const several = { 'reports[]': 'b/**/*.xml\r\n\na.xml\nb/**/*.xml' };
    assert.deepEqual((await alice.put(own, several)).record.reports, ['b/**/*.xml', 'a.xml']);
    assert.deepEqual((await alice.get(own)).record.reports, ['b/**/*.xml', 'a.xml']);
    for (const glob of ['/etc/passwd', '../x.xml', 'a/../b', '[', 'x'.repeat(256)])
      assertWrongFields(await alice.put(own, { 'reports[]': glob }), { reports: 'invalid_format' });
    assertWrongFields(await alice.put(own, { reports: 'a.xml' }), { reports: 'invalid_format' });
    assert.deepEqual((await alice.put(own, { 'reports[]': '' })).record.reports, []);
  });
});
