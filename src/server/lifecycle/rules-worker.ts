import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { evaluate, type RuleResult, type Question } from './rules.ts';

answerTasks(({ milliseconds, ...question }: Question & { milliseconds: number }): RuleResult[] => {
  const began = process.threadCpuUsage(); // processor time, so that a busy machine does not make rules too slow
  return evaluate(question, () => {
    const { user, system } = process.threadCpuUsage(began);
    return (user + system) / 1000 > milliseconds;
  });
});
