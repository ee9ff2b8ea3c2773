import { after, before, describe } from 'node:test';
import { repeatedly } from '../../src/lib/repeatedly.ts';
import { claimSeconds } from '../../src/protocol/index.ts';
import { extend, heldBy } from '../../src/queue/queue.ts';
import type { Record_ } from './client.ts';
import { onOneDatabase } from './databases.ts';
import { Developer } from './developer.ts';
import { ScriptedRunner } from './runner.ts';
import { Service } from './service.ts';
import type { User } from './user.ts';

/** A project named Sluice, and somebody in a clone of it; set when the tests begin. */
export interface Sluice {
  alice: User;
  project: Record_;
  developer: Developer;
}

export interface CommandSetting {
  service: Service;
  runner: ScriptedRunner;
  at: Sluice;
}

/** Tests of commands against a server, with a runner that does what a test says. Nothing in them depends on the database. */
export function describeCommands(name: string, suites: string[], define: (setting: CommandSetting) => void): void {
  describe(name, () => {
    onOneDatabase((database) => {
      const service = new Service(database);
      const runner = new ScriptedRunner();
      const at = {} as Sluice;
      let extending: ReturnType<typeof repeatedly> | undefined;
      // To start a command takes its time on a busy machine. No claim of the runner lapses meanwhile.
      const extendAll = async (): Promise<void> => {
        const { db } = service.store;
        const { holder } = runner.self;
        const claims = (await heldBy(db, holder)).flatMap(({ claim }) => claim ?? []);
        if (claims.length === 0) return;
        await db.transaction((trx) => extend(db, trx, { holder, claims, seconds: claimSeconds }));
      };
      before(async () => {
        await service.start();
        await runner.begin(service.store);
        extending = repeatedly(2000, extendAll, () => {});
        at.alice = await service.user();
        const form = { name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' };
        at.project = await at.alice.createProject(form);
        for (const suite of suites) await at.alice.createSuite(at.project, { name: suite });
        at.developer = await Developer.of(service, at.alice);
        at.developer.clone('git@example.org:team/sluice.git');
      });
      after(async () => {
        await extending?.stop();
        await runner.dispatch.close();
      });
      define({ service, runner, at });
    });
  });
}
