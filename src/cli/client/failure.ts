/** The message is one line, with advice. */
export type FailureKind =
  /** The server is unreachable, is broken, or uses another protocol. */
  | 'unreachable'
  | 'untrusted'
  | 'refused'
  | 'not_found'
  | 'invalid'
  /** A retry may succeed. */
  | 'unavailable';

export class Failure extends Error {
  readonly kind: FailureKind;
  /** For `--verbose`. */
  readonly more: string;
  readonly fields: readonly string[];

  constructor(kind: FailureKind, message: string, more = '', fields: readonly string[] = []) {
    super(message);
    this.name = 'Failure';
    this.kind = kind;
    this.more = more;
    this.fields = fields;
  }
}

const meanings: Record<string, string> = {
  already_exists: 'is already taken',
  is_blank: 'is missing',
  invalid_format: 'is not valid',
  resource_temporary_unavailable: 'is not available now; try again later',
  is_reserved: 'is reserved',
  not_found: 'does not exist, or belongs to another account',
};

export function failureOf(status: number, body: string, requestId: string): Failure {
  const fields = fieldsIn(body);
  const codes = Object.values(fields).flat();
  const more = `the server answered ${status} ${body.slice(0, 500)} (request ${requestId})`;
  if (codes.includes('account_suspended'))
    return new Failure('refused', 'Your account is suspended. Ask the operator of the server.', more);
  if (status === 401)
    return new Failure(
      'refused',
      'The server refuses these credentials, or they may not do this. Sign in with: headrace login',
      more,
      Object.keys(fields),
    );
  if (status === 402)
    return new Failure('refused', 'The account is not paid for. Ask the owner of the project to pay.', more);
  if (status >= 500)
    return new Failure(
      'unreachable',
      `The server failed (${status}). Try again; its log knows request ${requestId}.`,
      more,
    );
  if (status === 400)
    return new Failure('invalid', 'The server does not know this. Is it older than this program?', more);
  const messages = Object.entries(fields).map(([field, found]) => {
    const means = found.map((code) => meanings[code] ?? code).join(', ');
    if (field !== 'generic') return `${field} ${means}`;
    return found.includes('is_reserved') ? 'the limit is reached; delete one first' : `this ${means}`;
  });
  const kind = codes.includes('not_found') ? 'not_found' : 'invalid';
  const isLater = codes.length > 0 && codes.every((code) => code === 'resource_temporary_unavailable');
  const told = messages.length === 0 ? undefined : messageIn(body); // then it is JSON
  const refusal = told ?? `${messages.join('; ')}.`;
  const text = messages.length === 0 ? `The server answered ${status}.` : `Refused: ${refusal}`;
  return new Failure(isLater ? 'unavailable' : kind, text, more, Object.keys(fields));
}

function messageIn(body: string): string | undefined {
  const { message } = JSON.parse(body) as { message?: unknown };
  return typeof message === 'string' ? message : undefined;
}

function fieldsIn(body: string): Record<string, string[]> {
  try {
    const { error } = JSON.parse(body) as { error?: unknown };
    if (typeof error !== 'object' || error === null) return {};
    return Object.fromEntries(
      Object.entries(error).map(([field, codes]) => [field, Array.isArray(codes) ? codes.map(String) : []]),
    );
  } catch {
    return {};
  }
}
