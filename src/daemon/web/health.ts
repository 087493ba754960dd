import type { Liveness, Readiness } from '../status/readiness.ts';
import { jsonBody } from './body.ts';
import type { Answer } from './send.ts';

/** The most targets that `/readyz` names. */
const MOST_NAMED = 100;

/** The answer of `/healthz`: 200 as long as the loop moves, and nothing else of the mirror. */
export function healthAnswer({ isAlive, state, silentMs }: Liveness): Answer {
  return { status: isAlive ? 200 : 503, headers: {}, body: jsonBody({ alive: isAlive, state, silentMs }) };
}

/**
 * The answer of `/readyz`: 200 as long as the mirror may be read for what the service has.
 * @param mayName whether the names of targets may be told
 */
export function readinessAnswer(
  { isReady, isListed, selectsNothing, notReady }: Readiness,
  mayName: boolean,
): Answer {
  const named = notReady.slice(0, MOST_NAMED).map(({ target, reason, verifiedAtMs }) => ({
    target,
    reason,
    verifiedAt: verifiedAtMs === null ? null : isoTime(verifiedAtMs),
  }));
  const body = {
    ready: isReady,
    listed: isListed,
    ...(selectsNothing ? { selectsNothing } : {}),
    notReadyCount: notReady.length,
    ...(mayName ? { notReady: named } : {}),
  };
  return { status: isReady ? 200 : 503, headers: {}, body: jsonBody(body) };
}

/** A time that comes from a clock, or a disk, that was wrong may be none that can be written. */
function isoTime(timeMs: number): string | null {
  const time = new Date(timeMs);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}
