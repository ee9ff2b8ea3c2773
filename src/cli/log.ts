import { pino, type Logger } from 'pino';

/** Lines of JSON on standard error: standard output belongs to what commands answer. */
export function createLog(level: string): Logger {
  const redact = ['*.authorization', '*.oauth_token', '*.password', '*.api_key', 'err.parameters'];
  const destination = pino.destination({ dest: 2, sync: true, maxLength: 1024 * 1024 });
  destination.on('error', () => {}); // where it goes may be full, and that must not end the program
  return pino({ level, base: null, redact }, destination);
}
