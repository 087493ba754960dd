/** A request that is answered with an error; not an error of the service itself. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  /** HTTP status code. */
  readonly status: number;
  /** Stable word for programs, in the answer beside the message. */
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;

  /**
   * @param status HTTP status code
   * @param code stable word for programs
   * @param message advice for a person
   * @param headers further headers of the answer
   */
  constructor(status: number, code: string, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.headers = headers;
  }
}

/** The refusal of a malformed request. */
export function invalid(message: string): RequestError {
  return new RequestError(400, 'invalid', message);
}

/** The refusal of a request that is too large; the rest of it is not read. */
export function tooLarge(message: string): RequestError {
  return new RequestError(413, 'too_large', message, { connection: 'close' });
}
