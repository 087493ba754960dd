import { type BufferedBody, packableBody } from '../../lib/http/buffered-body.ts';
import type { Reply, ReplyHeaders } from '../../lib/http/reply.ts';
import type { DaemonReport, Liveness } from '../status/status-schema.ts';

/** The most targets that `/readyz` names. */
const MOST_NAMED = 100;

/** A refusal, with one line for people. */
export function refusal(status: number, line: string, headers: ReplyHeaders = {}): Reply {
  return { status, headers, body: packableBody('text/plain; charset=utf-8', `${line}\n`) };
}

/** The reply of `/healthz`: 200 as long as the loop moves, and nothing else of the mirror. */
export function livenessReply({ isAlive, state, silentMs }: Liveness): Reply {
  return { status: isAlive ? 200 : 503, headers: {}, body: json({ alive: isAlive, state, silentMs }) };
}

/**
 * The reply of `/readyz`: 200 as long as the mirror may be read for what the service has.
 * @param mayName whether the names of targets may be told
 */
export function readinessReply(
  { readiness, shard }: Pick<DaemonReport, 'readiness' | 'shard'>,
  mayName: boolean,
): Reply {
  const { isReady, isListed, selectsNothing, notReady } = readiness;
  const named = notReady.slice(0, MOST_NAMED).map(({ target, reason, verifiedAtMs }) => ({
    target,
    reason,
    verifiedAt: verifiedAtMs === null ? null : isoTime(verifiedAtMs),
  }));
  const body = json({
    ready: isReady,
    ...(shard === null ? {} : { shard }),
    listed: isListed,
    ...(selectsNothing ? { selectsNothing } : {}),
    notReadyCount: notReady.length,
    ...(mayName ? { notReady: named } : {}),
  });
  return { status: isReady ? 200 : 503, headers: {}, body };
}

/** The content of `/api/status`. Its tag stays the same as long as nothing but the clock has moved. */
export function statusBody(report: DaemonReport): BufferedBody {
  const still = { ...report, nowMs: 0, liveness: { ...report.liveness, silentMs: 0 } };
  return json(report, JSON.stringify(still));
}

/** Data as JSON. @param mark what its tag follows from; null for the data */
export function json(value: unknown, mark: string | null = null): BufferedBody {
  return packableBody('application/json; charset=utf-8', JSON.stringify(value), mark);
}

/** A time that comes from a clock, or a disk, that was wrong may be none that can be written. */
function isoTime(timeMs: number): string | null {
  const time = new Date(timeMs);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}
