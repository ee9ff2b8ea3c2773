import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { isUnavailable } from '../unavailable.ts';
import { NoSuchObjectError, translated } from './failures.ts';
import { keysOf, type Keys, type S3Location } from './location.ts';

export interface S3Options {
  /** Called with the reason when S3 becomes unreachable, and without one when it is back. */
  onChange?: ((failure: string | undefined) => void) | undefined;
  /** Uploads use parts of this size. Smaller uploads are sent whole. */
  partSize?: number;
  copySize?: number;
  /** Limit of most calls, all tries together. */
  usualMs?: number;
  /** Incoming objects older than this are abandoned. */
  abandonedAfterMs?: number;
}

export interface S3Link {
  client: S3Client;
  place: S3Location;
  keys: Keys;
  /** The time limit covers all tries. Never throws the SDK's own errors. */
  ask: <T>(work: (signal: AbortSignal) => Promise<T>, withinMs?: number) => Promise<T>;
  prove(withinMs?: number): Promise<void>;
  /** S3's clock, in milliseconds since 1970; undefined before its first response. */
  now(): number | undefined;
  /** Why S3 cannot be used, according to the last response. */
  failure(): string | undefined;
  close(): void;
}

const connectWithinMs = 3000;
/** For one request until its response: long enough for a part over a slow network. */
const answerWithinMs = 60_000;
/** As long as a user waits for a page. */
const mostMs = 10_000;

export function openS3Link(place: S3Location, { onChange, usualMs = mostMs }: S3Options): S3Link {
  const client = new S3Client({
    ...(place.endpoint === undefined ? {} : { endpoint: place.endpoint }),
    ...(place.region === undefined ? {} : { region: place.region }),
    forcePathStyle: place.pathStyle,
    // Uploads are already signed with their SHA-256. Many stores support only the checksums that S3 requires.
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
  let failure: string | undefined;
  const changed = (now: string | undefined): void => {
    const before = failure;
    failure = now;
    if ((now === undefined) !== (before === undefined) && !closing.signal.aborted) onChange?.(now);
  };
  const keys = keysOf(place);
  const ask: S3Link['ask'] = async (work, withinMs = usualMs) => {
    const silent = new AbortController();
    const signal = AbortSignal.any([closing.signal, silent.signal, AbortSignal.timeout(withinMs)]);
    // Long calls are given up sooner if S3 does not even respond to a small request.
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
  /** Gets an object that never exists. S3 must search for it, and reports that it is missing. */
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
    failure: () => failure,
    close() {
      closing.abort();
      client.destroy();
    },
  };
}
