import type { Bytes } from './library.ts';

interface AnswerHead {
  /** HTTP status code. */
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An answer as a value; {@link sendAnswer} puts it on the wire. */
export type Answer =
  | (AnswerHead & { readonly kind: 'json'; readonly body: unknown })
  | (AnswerHead & { readonly kind: 'bytes'; readonly body: Uint8Array })
  /** No body at all, as 304 has none. */
  | (AnswerHead & { readonly kind: 'bare' })
  /** Bytes that are made, or read, while they are sent; not before the body is wanted. */
  | (AnswerHead & {
      readonly kind: 'stream';
      /** Length of the body in bytes where it is known. */
      readonly lengthBytes?: number;
      readonly open: (signal: AbortSignal) => Bytes;
    });

/** An answer in JSON. */
export function jsonAnswer(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { kind: 'json', status, body, headers };
}

/**
 * An error as this service tells it; the specification shows no shape (section 7).
 * @param code stable word for programs
 */
export function errorAnswer(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return jsonAnswer(status, { error: { code, message } }, headers);
}
