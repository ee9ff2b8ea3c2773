export const errorStatus = {
  api_does_not_exists: 400,
  unauthorized: 401,
  account_suspended: 401,
  payment_required: 402,
  already_exists: 403,
  is_blank: 403,
  invalid_format: 403,
  resource_temporary_unavailable: 403,
  is_reserved: 403,
  not_found: 404,
  limit_reached: 429,
} as const;

export type ErrorCode = keyof typeof errorStatus;

/** `generic` is the whole request. */
export type FieldErrors = Record<string, ErrorCode[]>;

export class ApiError extends Error {
  readonly status: number;
  readonly fields: FieldErrors;
  readonly headers: Readonly<Record<string, string>> = {};
  /** For users. Includes the words of another service that was asked. */
  readonly detail: string | undefined = undefined;

  constructor(code: ErrorCode, field = 'generic') {
    super(`${field}: ${code}`);
    this.name = 'ApiError';
    this.fields = { [field]: [code] };
    this.status = errorStatus[code];
  }

  static ofHttp(status: number, code: ErrorCode, field = 'generic', headers: Record<string, string> = {}): ApiError {
    return Object.assign(new ApiError(code, field), { status, headers });
  }

  static inWords(code: ErrorCode, field: string, detail: string): ApiError {
    return Object.assign(new ApiError(code, field), { detail });
  }

  static ofFields(fields: FieldErrors): ApiError {
    const codes = Object.values(fields).flat();
    // If a record is missing and a field is malformed, the request must be corrected first, so 403 comes first.
    const leading = codes.find((code) => errorStatus[code] === 403) ?? codes[0] ?? 'invalid_format';
    const error = new ApiError(leading);
    Object.assign(error, { fields, message: JSON.stringify(fields) });
    return error;
  }

  get body(): { error: FieldErrors; message?: string } {
    return { error: this.fields, ...(this.detail !== undefined && { message: this.detail }) };
  }
}
