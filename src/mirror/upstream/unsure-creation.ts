import { MirrorError, toMirrorError } from '../../lib/errors/errors.ts';
import { codeOf } from './failures.ts';
import { proxyRefusal } from './proxy-failures.ts';

/** Failures before a connection is there: nothing can have been sent. */
const BEFORE_SENDING = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Says whether a request that failed without an answer certainly did not reach the service. */
export function neverArrived(error: unknown): boolean {
  // Where it was led elsewhere, the answer says that it was not done.
  if (error instanceof MirrorError && error.code === 'service.redirected') return true;
  return proxyRefusal(error) !== null || BEFORE_SENDING.has(codeOf(error) ?? '');
}

/**
 * Says whether an answer with this status means that nothing was created: the client's mistakes, and what a service says before it
 * has looked at a request (RFC 9110, 15.6.4; RFC 6585, section 4). 408 is not among them: some proxies give it for a service that
 * thinks for too long.
 */
export function createsNothing(status: number): boolean {
  return (status >= 400 && status < 500 && status !== 408) || status === 503;
}

/** A request failed that must not be sent twice, and nobody knows whether it was done. */
export class UnsureError extends MirrorError {}

/** Makes the error for that. */
export function unsure(error: unknown): UnsureError {
  const { code, message, cause } = toMirrorError(error);
  return new UnsureError(code, message, {
    cause,
    hint: 'The repository may or may not have been created: look at `repos list` before you try again.',
  });
}
