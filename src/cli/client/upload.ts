import { createReadStream } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { Client, Params } from './client.ts';
import { Failure } from './failure.ts';
import { backOff } from '../../shared/lib/back-off.ts';

/** Interruptions in a row without any progress. */
const mostBreaks = 5;
const firstPauseMs = 1000;

/** After an interruption it continues from what the server has. At last it throws a `Failure` with the progress. */
export async function uploadArchive(
  client: Client,
  params: Params,
  { file, size, onSent }: { file: string; size: number; onSent: (bytes: number) => void },
): Promise<void> {
  const { id_str: id } = await client.call('openUpload', params, { size: String(size) });
  const upload = { ...params, upload_id: id };
  let arrived = 0;
  for (let breaks = 0; ;) {
    try {
      const { offset, complete } = await client.call('uploaded', upload);
      if (complete) return;
      if (offset > arrived) breaks = 0;
      arrived = offset;
      onSent(offset);
      const pieces = createReadStream(file, { start: offset, highWaterMark: 256 * 1024 });
      await client.sendRest(upload, { offset, size, pieces: pieces as AsyncIterable<Buffer>, onSent });
      return;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.kind === 'not_found')
        throw new Failure(
          'unavailable',
          'The upload no longer exists: another one replaced it, or it took longer than a day. Start it again.',
          error.more,
        );
      // Only then is it known whether bytes of a broken request arrived.
      const isPassing =
        error.kind === 'unreachable' || error.kind === 'unavailable' || error.fields.includes('upload_offset');
      if (!isPassing) throw error;
      breaks += 1;
      if (breaks >= mostBreaks) throw givenUp(error, arrived, size);
    }
    await pause(backOff(breaks, firstPauseMs));
  }
}

function givenUp({ message, more }: Failure, arrived: number, size: number): Failure {
  return new Failure(
    'unreachable',
    `The upload was interrupted ${mostBreaks} times, at ${formatBytes(arrived)} of ${formatBytes(size)}. ${message}`,
    more,
  );
}
