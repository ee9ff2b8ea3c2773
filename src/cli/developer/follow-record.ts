import type { Params } from '../client/client.ts';
import type { StreamName } from '../client/operations.ts';
import type { Call } from './call.ts';
import { onInterrupt } from './follow.ts';
import { LogWriter } from './log-output.ts';
import { colourOf, exitStatus, resultOf } from './states.ts';
import { clean } from './text.ts';

interface FollowedRecord {
  name: string;
  leaves: string;
  /** Printed with its last state if the output is for a program. */
  record: object;
}

/** Returns the record's result as an exit status. */
export async function followRecord(
  call: Call,
  stream: StreamName,
  params: Params,
  about: FollowedRecord,
): Promise<number> {
  const { client, screen } = call;
  using _ = onInterrupt(() => screen.hint(about.leaves));
  const writer = new LogWriter(screen, true);
  let state = '';
  for await (const event of client.follow(stream, params)) {
    if (event.event === 'log' && !screen.isJson) await writer.write(event.text ?? '');
    state = event.state ?? state;
  }
  if (screen.isJson) screen.json({ ...about.record, state });
  else {
    await writer.end();
    screen.print(screen.paint(clean(`${about.name}: ${state}`), colourOf(state)));
  }
  return resultOf(state) ?? exitStatus.errored;
}
