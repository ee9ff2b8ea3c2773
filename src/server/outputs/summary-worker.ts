import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { htmlOfSummary } from './summary-html.ts';

answerTasks(htmlOfSummary);
