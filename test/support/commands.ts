import { after, before, describe } from 'node:test';
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
      before(async () => {
        await service.start();
        await runner.begin(service.store);
        at.alice = await service.user();
        const form = { name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' };
        at.project = await at.alice.createProject(form);
        for (const suite of suites) await at.alice.createSuite(at.project, { name: suite });
        at.developer = await Developer.of(service, at.alice);
        at.developer.clone('git@example.org:team/sluice.git');
      });
      after(() => runner.dispatch.close());
      define({ service, runner, at });
    });
  });
}
