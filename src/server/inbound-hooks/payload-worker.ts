import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { readSent, type PayloadResult, type Sent } from './payload.ts';

/** Long payloads are read here, so that the server answers other requests meanwhile. */
answerTasks((sent: Sent): PayloadResult =>
  readSent({ ...sent, bytes: Buffer.from(sent.bytes.buffer, 0, sent.bytes.byteLength) }),
);
