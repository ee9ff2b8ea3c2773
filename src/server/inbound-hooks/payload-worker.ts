import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { readSent, type Found, type Sent } from './payload.ts';

/** Long payloads are read here, so that the server answers other requests meanwhile. */
answerTasks((sent: Sent): Found =>
  readSent({ ...sent, bytes: Buffer.from(sent.bytes.buffer, 0, sent.bytes.byteLength) }),
);
