import { type BufferedBody, packableBody, type Reply, type ReplyHeaders } from '../../lib/http/reply.ts';
import type { DaemonReport, Liveness } from '../status/status-schema.ts';

/** Most targets that `/readyz` names. */
const MOST_NAMED = 100;

/** A refusal, with one line for people. */
export function refusal(status: number, line: string, headers: ReplyHeaders = {}): Reply {
  return { status, headers, body: packableBody('text/plain; charset=utf-8', `${line}\n`) };
}

/** The reply of `/healthz`: 200 while the daemon makes progress, and nothing else about the mirror. */
export function livenessReply({ isAlive, state, silentMs }: Liveness): Reply {
  return { status: isAlive ? 200 : 503, headers: {}, body: json({ alive: isAlive, state, silentMs }) };
}

/**
 * The reply of `/readyz`: 200 while the mirror is up to date with the service.
 * @param mayName whether it may name targets
 */
export function readinessReply(
  { readiness, shard }: Pick<DaemonReport, 'readiness' | 'shard'>,
  mayName: boolean,
): Reply {
  const { isReady, isListed, selectsNothing, stateProblem, notReady } = readiness;
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
    ...(mayName && stateProblem !== null ? { reason: stateProblem } : {}),
    ...(mayName ? { notReady: named } : {}),
  });
  return { status: isReady ? 200 : 503, headers: {}, body };
}

/** The content of `/api/status`. Its tag stays the same while only the clock changes. */
export function statusBody(report: DaemonReport): BufferedBody {
  const still = { ...report, nowMs: 0, liveness: { ...report.liveness, silentMs: 0 } };
  return json(report, JSON.stringify(still));
}

/** Data as JSON. @param mark source of its tag; null for the data */
export function json(value: unknown, mark: string | null = null): BufferedBody {
  return packableBody('application/json; charset=utf-8', JSON.stringify(value), mark);
}

/** A time from a wrong clock or disk may be out of range. */
function isoTime(timeMs: number): string | null {
  const time = new Date(timeMs);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}
