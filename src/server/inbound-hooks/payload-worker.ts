import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { readSent, type Found, type Sent } from './payload.ts';

/** Reads long payloads in a separate thread, so that the server answers other requests meanwhile. */
answerTasks((sent: Sent): Found =>
  readSent({ ...sent, bytes: Buffer.from(sent.bytes.buffer, 0, sent.bytes.byteLength) }),
);
