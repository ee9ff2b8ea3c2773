import { answerTasks } from '../lib/worker-thread.ts';
import { parseYaml } from './yaml.ts';

/** A thread can be ended if a deeply nested file takes too long. */
answerTasks(parseYaml);
