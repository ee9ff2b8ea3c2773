import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { compareListings } from './polled-refs.ts';

answerTasks(compareListings);
