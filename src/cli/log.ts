import { pino, type Logger } from 'pino';

/** Lines of JSON on standard error: standard output belongs to what commands answer. */
export function createLog(level: string): Logger {
  const redact = ['*.authorization', '*.oauth_token', '*.password', '*.api_key', 'err.parameters'];
  return pino({ level, base: null, redact }, pino.destination({ dest: 2, sync: true }));
}
