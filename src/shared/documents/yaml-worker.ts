import { answerTasks } from '../lib/worker-thread.ts';
import { parseYaml } from './yaml.ts';

/** Parses YAML in a separate thread, which a deeply nested file can end. */
answerTasks(parseYaml);
