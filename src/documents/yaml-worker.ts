import { answerTasks } from '../lib/worker-thread.ts';
import { parseYaml } from './yaml.ts';

/** Parses YAML in a separate thread, which a file that is nested deeply can end. */
answerTasks(parseYaml);
