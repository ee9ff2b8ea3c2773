import assert from 'node:assert/strict';
import { test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { Link, Order } from '../../../src/shared/protocol/index.ts';
import { queueTopic } from '../../../src/server/queue/queue.ts';
import { registered } from '../../support/registered.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

describeService(
  'an account with a bound on what it has under way',
  (service) => {
    const ask = async (user: User): Promise<string> => {
      const project = await user.createProject();
      await user.requestBuild(project);
      return String(project.id);
    };
    const next = async (link: Link): Promise<Order> =>
      (await link.next({ claim: randomName() }, patient)) ?? assert.fail('there is nothing to do');
    const finish = (link: Link, { claim }: Order) =>
      link.finish({ claim, outcome: { kind: 'unfetchable', reason: 'x' }, logSize: 0 }, patient);

    test('leaves the rest of the runners to others, and goes on as soon as something of it is over', async () => {
      const [greedy, modest] = [await service.user(), await service.user()];
      const [one, two] = [await registered(service), await registered(service)];
      for (let count = 0; count < 4; count += 1) await ask(greedy);
      const first = await next(one.link);
      await next(one.link);
      const project = await ask(modest);
      const other = await next(two.link);
      assert.ok(other.work.kind === 'fetch_commit');
      assert.equal(other.work.source.projectId, project);
      assert.deepEqual(await finish(two.link, other), { taken: true });
      assert.equal(
        await two.link.next({ claim: randomName(), holdMs: 500 }, patient),
        undefined,
        'more than the bound',
      );

      // A request that is held hears of it, and need not come to look by itself.
      const waiting = next(two.link);
      const heard: string[] = [];
      const stop = service.store.db.listen((topic) => heard.push(topic));
      await finish(one.link, first);
      const { work } = await waiting;
      assert.ok(work.kind === 'fetch_commit');
      assert.ok(heard.includes(queueTopic));
      stop();
      one.link.close();
      two.link.close();
    });
  },
  { settings: { account_concurrency: '2' } },
);
