import { answerTasks } from '../lib/worker-thread.ts';
import { judge, type Judged, type Question } from './rules.ts';

/** Judges rules in a separate thread, so that the server answers other requests meanwhile. */
answerTasks(({ milliseconds, ...question }: Question & { milliseconds: number }): Judged[] => {
  const began = process.threadCpuUsage(); // on a busy machine nothing else becomes too slow
  return judge(question, () => {
    const { user, system } = process.threadCpuUsage(began);
    return (user + system) / 1000 > milliseconds;
  });
});
