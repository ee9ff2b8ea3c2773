import { after, before, describe } from 'node:test';
import type { TestDatabase } from './databases.ts';
import { startFaultyProxy, type FaultyProxy } from './faulty-proxy.ts';
import { describeWithRunnerOnOne, type ScriptedLimits, type ScriptedRunner } from './runner.ts';
import type { Service, ServiceOptions } from './service.ts';
import { startSwift, type Swift } from './swift.ts';

/** What stands behind the service, known once the tests run. */
export interface Behind {
  swift: Swift;
  proxy: FaultyProxy;
  /** The bucket of the service that runs at the moment. */
  bucket: string;
}

/** Runs tests against a service with its blobs in a bucket of its own and faults in between. */
export function describeInS3(
  name: string,
  define: (service: Service, runner: ScriptedRunner, behind: Behind, database: TestDatabase) => void,
  options: ServiceOptions & ScriptedLimits = {},
): void {
  describe(name, () => {
    const behind = {} as Behind;
    const settings: Record<string, string> = { ...options.settings };
    const renew = async (): Promise<void> => {
      behind.bucket = await behind.swift.bucket();
      const query = `endpoint=${behind.proxy.endpoint}&region=${behind.swift.region}&path_style=true&browsers=true`;
      settings.blob_url = `s3://${behind.bucket}/ci?${query}`;
    };
    before(async () => {
      behind.swift = await startSwift();
      behind.proxy = await startFaultyProxy(behind.swift.endpoint);
      Object.assign(process.env, behind.swift.credentials);
      await renew();
    });
    after(async () => {
      await behind.proxy.close();
      await behind.swift.close();
    });
    describeWithRunnerOnOne(
      'blobs in S3',
      (service, runner, database) => {
        after(renew); // the service on the next database has a bucket of its own
        define(service, runner, behind, database);
      },
      { ...options, settings },
    );
  });
}
