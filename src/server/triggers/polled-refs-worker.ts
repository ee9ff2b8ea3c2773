import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { compareListings } from './polled-refs.ts';

/** Compares long listings of refs in a separate thread, so that the server answers other requests meanwhile. */
answerTasks(compareListings);
