import type { Database } from '../db/open.ts';
import { queueTopic, type ClaimedJob } from '../queue/queue.ts';

/**
 * Of all who wait for work and are told that there may be some, one looks at a time: who comes while another looks for
 * the same news waits for what that one finds, and looks as well only if there is more. So one job costs one look,
 * however many executors wait for it.
 */
export interface WaitingLine {
  /** `look` calls back with what it claims. Those who may take different work stand in different lines. */
  look<T>(line: string, look: (onClaim: (job: ClaimedJob) => void) => Promise<T>): Promise<T | undefined>;
  close(): void;
}

interface Look {
  /** What had been announced when it began. */
  news: number;
  isMore: Promise<boolean>;
}

export function waitingLine(db: Pick<Database, 'listen' | 'listenEarly'>): WaitingLine {
  const looks = new Map<string, Look>();
  let news = 0;
  const hear = (topic: string): void => {
    if (topic === queueTopic) news += 1;
  };
  const missed = (): void => void (news += 1);
  const stops = [db.listen(hear, missed), db.listenEarly(hear)];
  return {
    async look(line, look) {
      for (let other = looks.get(line); other?.news === news; other = looks.get(line))
        if (!(await other.isMore)) return undefined;
      const { promise: isMore, resolve } = Promise.withResolvers<boolean>();
      const mine = { news, isMore };
      const end = (found: boolean): void => {
        if (looks.get(line) === mine) looks.delete(line);
        resolve(found);
      };
      looks.set(line, mine);
      try {
        return await look(({ isLast = false }) => end(!isLast));
      } finally {
        end(false);
      }
    },
    close() {
      for (const stop of stops) stop();
    },
  };
}
