import { accountRoute } from '../api/route.ts';
import { runnersNow } from '../auth/runner-heartbeats.ts';
import { tagsIn } from '../../shared/domain/tags.ts';
import { oldestWaiting, workByTags } from '../lifecycle/queue-depth.ts';
import { queueRecord } from '../../shared/records/installation.ts';

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/queue',
    access: 'operators',
    scope: 'user',
    takesMetricsToken: true,
    summary:
      'See how many jobs are queued and running, and how many runners are connected; the metrics token is accepted too',

    answer: queueRecord,
    async handle({ db, database }) {
      const groups = await workByTags(db);
      const sum = (of: (group: (typeof groups)[number]) => number): number =>
        groups.reduce((total, group) => total + of(group), 0);
      const byTag = new Map<string, number>();
      for (const { tags, waiting } of groups)
        for (const tag of tagsIn(tags)) if (waiting > 0) byTag.set(tag, (byTag.get(tag) ?? 0) + waiting);
      const oldest = await oldestWaiting(db);
      const connected = (await runnersNow(database)).filter(({ state }) => state === 'idle' || state === 'busy');
      return {
        waiting: sum(({ waiting }) => waiting),
        running: sum(({ running }) => running),
        oldest_seconds: oldest === undefined ? 0 : Math.floor(Math.max(0, Date.now() - oldest) / 1000),
        runners: connected.length,
        by_tag: Object.fromEntries([...byTag].toSorted(([a], [b]) => (a < b ? -1 : 1))),
      };
    },
  }),
];
