import { isatty } from 'node:tty';
import { pino, type Logger } from 'pino';
import type { Config } from '../../shared/config.ts';
import { countRepeats, inWords } from './log-lines.ts';

/** Standard output is for results, so the log is on standard error: text on a terminal, else JSON. */
export function createLog({ log_level: level, log_format: chosen }: Pick<Config, 'log_level' | 'log_format'>): Logger {
  const redact = ['*.authorization', '*.oauth_token', '*.password', '*.api_key'];
  const destination = pino.destination({ dest: 2, sync: true, maxLength: 1024 * 1024 });
  destination.on('error', () => {}); // the disk may be full, which must not end the program
  const isText = (chosen ?? (isatty(2) ? 'text' : 'json')) === 'text';
  const showsStack = level === 'debug' || level === 'trace';
  const lines = countRepeats((line) => void destination.write(isText ? inWords(line, showsStack) : line));
  process.once('exit', () => lines.flush());
  return pino({ level, base: null, redact, serializers: { err: serializeError } }, lines);
}

interface WrittenError {
  type: string;
  message: string;
  code?: string | number;
  stack?: string | undefined;
  cause?: WrittenError | string;
}

const longestCauses = 5;

/** Message, code and stack. Other properties are a library's objects, which may contain requests and credentials. */
export function serializeError(error: unknown, causes = longestCauses): WrittenError | string {
  if (!(error instanceof Error))
    return typeof error === 'string' ? error : `a value that is not an error was thrown: ${typeof error}`;
  const { name, message, stack, cause } = error;
  const code = 'code' in error && (typeof error.code === 'string' || typeof error.code === 'number') ? error.code : '';
  const why = error instanceof AggregateError ? error.errors[0] : cause;
  return {
    type: name,
    message,
    ...(code === '' ? {} : { code }),
    stack,
    ...(why === undefined || causes === 0 ? {} : { cause: serializeError(why, causes - 1) }),
  };
}
