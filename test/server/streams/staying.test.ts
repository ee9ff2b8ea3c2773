import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { wireFor, withKeepAlive } from '../../../src/server/streams/firehose.ts';
import { Listener } from '../../support/firehose.ts';
import { describeWithRunner } from '../../support/runner.ts';
import { runningBuild, type RunningBuild } from '../../support/running-build.ts';
import type { User } from '../../support/user.ts';

describeWithRunner(
  'a firehose',
  (service, runner) => {
    let alice: User;
    let build: RunningBuild;
    before(async () => {
      alice = await service.user();
      build = await runningBuild(alice, runner);
    });

    /** Another person on the project, who can be taken off again. */
    const newcomer = async (): Promise<{ person: User; leave: () => Promise<unknown> }> => {
      const person = await service.user();
      const { id } = await alice.invite(build.project, person);
      return { person, leave: () => alice.delete(`/projects/${build.project.id}/collaborators/${id}`) };
    };
    const streams = (): string[] => [
      `${build.path}/firehose`,
      `/projects/${build.project.id}/build_requests/${build.request.id}/firehose`,
      `/projects/${build.project.id}/firehose`,
    ];

    test('goes on for those who may read, whoever else is taken off', async () => {
      const [stays, goes] = [await newcomer(), await newcomer()];
      const [kept, ended] = [
        await Listener.open(stays.person, `${build.path}/firehose`),
        await Listener.open(goes.person, `${build.path}/firehose`),
      ];
      await goes.leave();
      await ended.rest();
      await build.task.writeLog('still here?\n');
      const told = await kept.until(({ event }) => event === 'log');
      assert.equal(told.at(-1)?.data.text, 'still here?\n');
      kept.leave();
    });

    test('ends for a reader who is taken off the project', async () => {
      const { person, leave } = await newcomer();
      const open = await Promise.all(streams().map((path) => Listener.open(person, path)));
      await leave();
      for (const listener of open) {
        const told = await listener.rest();
        assert.ok(!told.some(({ event }) => event === 'end'), 'the build goes on');
      }
    });

    test('ends for a reader whose account is suspended', async () => {
      const { person } = await newcomer();
      const listener = await Listener.open(person, `${build.path}/firehose`);
      await service.suspend(person);
      await listener.rest();
    });
  },
  { streamPauseMs: 50 },
);

describe('a quiet stream', () => {
  for (const [accept, sign] of [
    ['text/event-stream', /^:.*\n\n$/],
    ['application/x-ndjson', /^\n$/],
  ] as const) {
    test(`shows that it lives, as ${accept}`, async () => {
      const wire = wireFor(accept);
      const word = Promise.withResolvers<string>();
      async function* words(): AsyncGenerator<string> {
        yield 'first';
        yield await word.promise;
      }
      const heard: string[] = [];
      for await (const text of withKeepAlive(words(), wire.keepAlive, 5)) {
        heard.push(text);
        if (heard.length === 4) word.resolve('last');
      }
      assert.deepEqual([heard[0], heard.at(-1)], ['first', 'last']);
      assert.ok(heard.length >= 5);
      for (const text of heard.slice(1, -1)) assert.match(text, sign);
    });
  }
});
