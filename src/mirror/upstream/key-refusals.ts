import { type BackOffPolicy, backOffDelayMs, MAX_RETRY_AFTER_MS } from '../../lib/time/back-off.ts';
import type { CredentialKind, CredentialPlace } from '../pass/events.ts';

/** The setting that a key comes from. */
export function credentialSetting(credential: CredentialKind, place: CredentialPlace): string {
  return `service.${credential}${place === 'second' ? 'Second' : ''}`;
}

/** A key that the service refused. Times in milliseconds since the epoch. */
export interface Refusal {
  /** Salted digest of the key and of the generation of the API that it was sent to; never the key. */
  readonly digest: string;
  /** How often it was refused in a row, at least once. */
  readonly attempts: number;
  readonly nextAttemptAtMs: number;
}

/** A refusal as it happened. */
export interface RefusedAttempt {
  readonly digest: string;
  /** How often the key had been refused before the request was sent: requests that were under way together count once. */
  readonly attemptsBefore: number;
  readonly nowMs: number;
  /** From 0 up to 1. */
  readonly random: number;
  /** From Retry-After (RFC 9110, section 10.2.3), in milliseconds; 0 without one. */
  readonly retryAfterMs: number;
}

/** A key that was refused may lock an account if it is tried again and again, so that it is tried ever more rarely. */
const REFUSAL_BACK_OFF: BackOffPolicy = { firstDelayMs: 60_000, maxDelayMs: 3_600_000 };

/** Four keys may be given; the others are the last ones that were replaced. */
const REFUSALS_KEPT = 8;

/** How often a key was refused in a row. */
export function attemptsOf(refusals: readonly Refusal[], digest: string): number {
  return find(refusals, digest)?.attempts ?? 0;
}

/**
 * Until when a key is not tried, in milliseconds since the epoch; null when it may be tried. A back off ends at most a day
 * ahead (see `retryAfterMs`), so that one which ends later was reckoned by a clock that was wrong, and is none.
 */
export function refusedUntilMs(refusals: readonly Refusal[], digest: string, nowMs: number): number | null {
  const untilMs = find(refusals, digest)?.nextAttemptAtMs ?? 0;
  return untilMs > nowMs && untilMs - nowMs <= MAX_RETRY_AFTER_MS ? untilMs : null;
}

/** The refusals with one more, the latest last. */
export function withRefusal(refusals: readonly Refusal[], refused: RefusedAttempt): readonly Refusal[] {
  const { digest, attemptsBefore, nowMs, random, retryAfterMs } = refused;
  if (attemptsOf(refusals, digest) !== attemptsBefore) return refusals;
  const attempts = attemptsBefore + 1;
  const delayMs = backOffDelayMs(REFUSAL_BACK_OFF, attempts, random, retryAfterMs);
  const refusal = { digest, attempts, nextAttemptAtMs: nowMs + delayMs };
  return [...withoutRefusal(refusals, digest), refusal].slice(-REFUSALS_KEPT);
}

/** The refusals without those of a key. */
export function withoutRefusal(refusals: readonly Refusal[], digest: string): readonly Refusal[] {
  return refusals.filter((refusal) => refusal.digest !== digest);
}

/** The refusals when these keys may be tried once more, now. */
export function triedAnew(
  refusals: readonly Refusal[],
  digests: readonly string[],
  nowMs: number,
): readonly Refusal[] {
  return refusals.map((refusal) =>
    digests.includes(refusal.digest) ? { ...refusal, nextAttemptAtMs: nowMs } : refusal,
  );
}

function find(refusals: readonly Refusal[], digest: string): Refusal | undefined {
  return refusals.find((refusal) => refusal.digest === digest);
}
