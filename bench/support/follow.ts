import type { Service } from './servers.ts';

/** Reads the stream of a record to its end. Then the connection is free for the next request. */
export async function follow(service: Service, record: string, hear: (text: string) => void = () => {}): Promise<void> {
  const headers = { authorization: service.authorization };
  const answer = await fetch(`${service.url}${record}/firehose`, { headers });
  let text = '';
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    hear(text);
  }
}

/**
 * Milliseconds until a word is in the log of the record that `ask` requests. At that moment `look` is called. Then
 * waits for the record's end.
 */
export async function untilSaid(
  service: Service,
  word: string,
  ask: () => Promise<string>,
  look: () => void = () => {},
): Promise<number> {
  const awaited = new RegExp(`event: log\\n.*${word}`);
  const startedAt = performance.now();
  let taken = 0;
  await follow(service, await ask(), (text) => {
    if (taken > 0 || !awaited.test(text)) return;
    taken = performance.now() - startedAt;
    look();
  });
  if (taken === 0) throw new Error(`${word} was never said`);
  return taken;
}
