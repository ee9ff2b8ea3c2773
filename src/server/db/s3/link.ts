import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { isUnavailable } from '../unavailable.ts';
import { NoSuchObjectError, translated } from './failures.ts';
import { keysOf, type Keys, type S3Location } from './location.ts';

export interface S3Options {
  /** Called when S3 goes away, with the reason, and without one when it is back. */
  onChange?: ((trouble: string | undefined) => void) | undefined;
  /** Uploads are cut into parts of this size; what is smaller is sent at once. */
  partSize?: number;
  /** A copy within S3 is made in parts of this size. */
  copySize?: number;
  /** How long most things may take, all tries together. */
  usualMs?: number;
  /** What is incoming is abandoned when it is older. */
  abandonedAfterMs?: number;
}

/** The connection to a location in S3. */
export interface S3Link {
  client: S3Client;
  place: S3Location;
  keys: Keys;
  /** Does something within a time, all tries together. Errors of the SDK do not leave it. */
  ask: <T>(work: (signal: AbortSignal) => Promise<T>, withinMs?: number) => Promise<T>;
  /** Throws unless S3 answers within a time. */
  prove(withinMs?: number): Promise<void>;
  /** The time as S3 has it, in milliseconds since 1970; undefined before its first answer. */
  now(): number | undefined;
  /** Why S3 cannot be used, as far as the last answer says. */
  trouble(): string | undefined;
  close(): void;
}

const connectWithinMs = 3000;
/** How long one request may take until it is answered: a part on its way over a slow network. */
const answerWithinMs = 60_000;
/** As long as a person waits for a page. */
const mostMs = 10_000;

export function openS3Link(place: S3Location, { onChange, usualMs = mostMs }: S3Options): S3Link {
  const client = new S3Client({
    ...(place.endpoint === undefined ? {} : { endpoint: place.endpoint }),
    ...(place.region === undefined ? {} : { region: place.region }),
    forcePathStyle: place.pathStyle,
    // What is sent is signed with its SHA-256 already. More checksums than S3 demands are more than many stores know.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      connectionTimeout: connectWithinMs,
      requestTimeout: answerWithinMs,
      throwOnRequestTimeout: true,
      socketAcquisitionWarningTimeout: answerWithinMs,
    },
  });
  let serverTime: { date: number; at: number } | undefined;
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const { headers = {} } = result.response as { headers?: Record<string, string> };
      const date = Date.parse(headers.date ?? '');
      if (!Number.isNaN(date)) serverTime = { date, at: performance.now() };
      return result;
    },
    { step: 'deserialize', name: 'clockOfS3' },
  );
  const closing = new AbortController();
  let trouble: string | undefined;
  const changed = (now: string | undefined): void => {
    const before = trouble;
    trouble = now;
    if ((now === undefined) !== (before === undefined) && !closing.signal.aborted) onChange?.(now);
  };
  const keys = keysOf(place);
  const ask: S3Link['ask'] = async (work, withinMs = usualMs) => {
    const silent = new AbortController();
    const signal = AbortSignal.any([closing.signal, silent.signal, AbortSignal.timeout(withinMs)]);
    // What may take long is given up sooner where S3 does not even answer a small question.
    const watch =
      withinMs > usualMs ? setInterval(() => void prove(usualMs).catch(() => silent.abort()), usualMs) : undefined;
    try {
      const result = await work(signal);
      changed(undefined);
      return result;
    } catch (error) {
      const known = translated(error, place);
      changed(isUnavailable(known) ? known.message : undefined);
      throw known;
    } finally {
      clearInterval(watch);
    }
  };
  /** Asks for an object that is never there: S3 has to look for it, and says so if that is what it finds. */
  const prove: S3Link['prove'] = async (withinMs) => {
    const get = new GetObjectCommand({ Bucket: place.bucket, Key: keys.incoming('none') });
    try {
      await ask((abortSignal) => client.send(get, { abortSignal }), withinMs);
    } catch (error) {
      if (!(error instanceof NoSuchObjectError)) throw error;
    }
  };
  return {
    client,
    place,
    keys,
    ask,
    prove,
    now: () => serverTime && serverTime.date + performance.now() - serverTime.at,
    trouble: () => trouble,
    close() {
      closing.abort();
      client.destroy();
    },
  };
}
