import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { registerApplication } from '../../support/applications.ts';
import type { Answer, Record_ } from '../../support/client.ts';
import { Listener } from '../../support/firehose.ts';
import { addArtifact } from '../../support/rows.ts';
import { describeService, Service } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';
import { addBuild, addCommit } from '../../support/rows.ts';

const options = { streamPauseMs: 50 };
const form = 'application/x-www-form-urlencoded';

/** What a person holds while they lose their rights: every kind of credential, and calls that last. */
describeService(
  'somebody who loses their rights',
  (service, database) => {
    /** Another server on the same database, where there can be one. */
    const beside = async (): Promise<Service> => {
      if (database.kind === 'sqlite') return service;
      const key = join(service.folder, 'master.key');
      const settings = { database_url: service.config.database_url ?? '', master_key_file: key };
      const second = new Service(database, { ...options, settings });
      await second.start();
      return second;
    };

    interface Team {
      owner: User;
      organisation: Record_;
      project: Record_;
      dependency: Record_;
      build: { id: bigint };
      artifact: { id: bigint };
    }
    const size = 24 * 1024 * 1024;
    let number = 0;

    const team = async (): Promise<Team> => {
      const owner = await service.user();
      const organisation = (await owner.post('/organisations', { name: `leavers-${(number += 1)}` })).record;
      const of = { organisation_id: String(organisation.id) };
      const project = await owner.createProject(of);
      const dependency = await owner.createDependency(of);
      const suite = await owner.createSuite(project);
      const commit = await addCommit(service.store, project);
      const buildRequest = await owner.requestBuild(project);
      const build = await addBuild(service.store, project, { commit, buildRequest, suite });
      const artifact = await addArtifact(service.store, build, 'large.bin', 'x'.repeat(size));
      return { owner, organisation, project, dependency, build, artifact };
    };
    const joined = async ({ owner, organisation }: Team, role: string): Promise<{ person: User; path: string }> => {
      const person = await service.user();
      const members = `/organisations/${organisation.id}/members`;
      const { record } = await owner.post(members, { email: person.email, role });
      return { person, path: `${members}/${record.id}` };
    };
    /** A call whose body has not arrived yet, and whose head has. */
    const heldCall = async (
      at: Service,
      person: User,
      path: string,
      { method = 'POST', body, type = form }: { method?: string; body: Buffer; type?: string },
      headers: Record<string, string> = {},
    ): Promise<{ answer: Promise<Answer>; finish: () => Promise<Answer> }> => {
      const sent = { 'content-type': type, 'content-length': String(body.length), expect: '100-continue', ...headers };
      const [request, answer] = at.api.begin(path, { as: person.credentials, method, headers: sent });
      request.flushHeaders();
      await once(request, 'continue');
      const half = Math.floor(body.length / 2);
      request.write(body.subarray(0, half));
      const finish = (): Promise<Answer> => {
        request.end(body.subarray(half));
        return answer;
      };
      return { answer, finish };
    };
    const bytesOf = async (download: IncomingMessage): Promise<number> => {
      let bytes = 0;
      try {
        for await (const piece of download) bytes += (piece as Buffer).length;
      } catch {
        // It was cut off.
      }
      return bytes;
    };

    const ways: Record<string, (team: Team, one: { person: User; path: string }) => Promise<unknown>> = {
      'is removed': ({ owner }, { path }) => owner.delete(path),
      'is suspended': (_, { person }) => service.suspend(person),
      'is gone at the issuer': (_, { person }) =>
        service.store.db.transaction((trx) =>
          trx.updateTable('users').set({ shut_out: 'gone' }).where('email', '=', person.email).execute(),
        ),
    };
    for (const [way, lose] of Object.entries(ways))
      test(`${way}: credentials, streams, uploads, downloads and calls under way end [promise: lost-rights]`, async () => {
        const [second, ours] = [await beside(), await team()];
        const { owner, project, dependency, build, artifact } = ours;
        const one = await joined(ours, 'maintainer');
        const { person } = one;
        const [tab, application] = [new Tab(service), await registerApplication(service, owner)];
        await tab.signIn(person.credentials);
        const token = await application.token(person, ['projects', 'commits']);
        const projectPath = `/projects/${project.id}`;
        const buildPath = `${projectPath}/builds/${build.id}`;
        const archive = await archiveOf({ configure: 'x'.repeat(1000) });
        const uploads = `/dependencies/${dependency.id}/uploads`;
        const upload = (await person.post(uploads, { size: BigInt(archive.length) })).record;

        const download = await service.api.open(`${buildPath}/artifacts/${artifact.id}`, { as: person.credentials });
        const zip = await service.api.open(`${buildPath}/artifacts.zip`, { as: person.credentials });
        assert.deepEqual([download.statusCode, zip.statusCode], [200, 200]);
        const part = { 'upload-offset': '0' };
        const patch = { method: 'PATCH', body: archive, type: 'application/partial-upload' };
        const parts = await heldCall(second, person, `${uploads}/${upload.id}`, patch, part);
        const whole = await heldCall(service, person, `/dependencies/${dependency.id}/archive`, {
          body: archive,
          type: 'application/gzip',
        });
        const description = Buffer.from(
          `description=${'by somebody who left '.repeat(10).trim().replaceAll(' ', '+')}`,
        );
        const change = await heldCall(second, person, projectPath, { method: 'PUT', body: description });
        const requested = await heldCall(service, person, `${projectPath}/build_requests`, {
          body: Buffer.from('commit_ref=main'),
        });
        // Opened last, so that the server has looked at the others when these have ended.
        const streams = [
          await Listener.open(service.signIn(person.credentials), `${buildPath}/firehose`),
          await Listener.open(second.signIn(person.credentials), `${projectPath}/firehose`),
          await Listener.open(second.signIn(person.credentials), `/dependencies/${dependency.id}/firehose`),
          new Listener(await service.api.open(`${projectPath}/firehose?oauth_token=${token}`, {})),
          await Listener.open(service.signIn(person.credentials), `/dependencies/${dependency.id}/firehose`),
        ];

        await lose(ours, one);
        for (const stream of streams) await stream.rest();
        for (const at of [service, second]) {
          const statuses = [
            (await at.api.get(projectPath, { as: person.credentials })).status,
            (await at.api.get(projectPath, { headers: { authorization: `Bearer ${token}` } })).status,
            (await at.api.get(`/dependencies/${dependency.id}`, { as: person.credentials })).status,
          ];
          for (const status of statuses) assert.ok([401, 404].includes(status), String(status));
        }
        const page = await tab.get(`/ui${projectPath}`);
        assert.ok([303, 404].includes(page.status), String(page.status));
        for (const open of [download, zip]) assert.ok((await bytesOf(open)) < size, 'the rest did not come');
        for (const call of [change, requested]) {
          const { status } = await call.finish();
          assert.ok([401, 404].includes(status), String(status));
        }
        for (const { answer } of [parts, whole]) await assert.rejects(answer, 'it was cut off');
        assert.notEqual((await owner.get(projectPath)).record.description, 'by somebody who left');
        assert.equal((await owner.get(`${projectPath}/build_requests`)).list.length, 1);
        const all = service.store.db.read.selectFrom('dependencies').select('archive');
        const taken = await all.where('id', '=', dependency.id).executeTakeFirst();
        assert.equal(taken?.archive, null, 'no archive was taken');
      });

    test('becomes a viewer: what they may still do goes on, and nothing more [promise: lost-rights]', async () => {
      const [second, ours] = [await beside(), await team()];
      const { owner, project, organisation } = ours;
      const one = await joined(ours, 'owner');
      const { person, path } = one;
      const members = `/organisations/${organisation.id}/members`;
      const accomplice = await service.user();
      const body = Buffer.from(`email=${encodeURIComponent(accomplice.email)}&role=owner`);
      const call = await heldCall(second, person, members, { body });
      const projectPath = `/projects/${project.id}`;
      const { id } = (await person.post(`${projectPath}/environment_variables`, { name: 'KEY', content: 'inside' }))
        .record;
      const variable = `${projectPath}/environment_variables/${id}`;
      assert.equal((await second.signIn(person.credentials).get(variable)).record.content, 'inside');
      const lowered = await Listener.open(second.signIn(person.credentials), `${projectPath}/firehose`);

      assert.equal((await owner.put(path, { role: 'viewer' })).status, 200);
      assert.equal((await call.finish()).status, 401);
      assert.equal((await owner.get(members)).list.length, 2);
      assert.equal((await second.signIn(person.credentials).get(variable)).record.content, '');
      assert.equal((await person.put(variable, { content: 'x' })).status, 401);
      await lowered.rest();
      const again = await Listener.open(second.signIn(person.credentials), `${projectPath}/firehose`);
      await owner.requestBuild(project);
      assert.equal((await again.next()).event, 'state');
      again.leave();
    });

    test('leaves a public project: what only members see ends [promise: lost-rights]', async () => {
      const ours = await team();
      const { owner, project } = ours;
      const path = `/projects/${project.id}`;
      assert.equal((await owner.put(path, { public: 'true' })).status, 200);
      const one = await joined(ours, 'viewer');
      const request = await owner.requestBuild(project);
      const fetch = await Listener.open(one.person, `${path}/build_requests/${request.id}/firehose`);
      const stranger = await service.user();
      const open = await Listener.open(stranger, `${path}/firehose`);
      await owner.delete(one.path);
      await fetch.rest();
      assert.equal((await one.person.get(path)).status, 200, 'as anybody may');
      await owner.requestBuild(project);
      assert.equal((await open.next()).event, 'state', 'strangers go on');
      open.leave();
    });
  },
  options,
);
