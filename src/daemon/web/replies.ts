import { type BufferedBody, packableBody } from '../../lib/http/buffered-body.ts';
import type { Reply, ReplyHeaders } from '../../lib/http/reply.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import type { Liveness } from '../status/readiness.ts';
import type { DaemonReport } from '../status/report.ts';
import type { StatusReport } from './status-schema.ts';

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

/** The report as `/api/status` tells it: for each held deletion with the command that lets it go. */
export function statusOf(report: DaemonReport): StatusReport {
  return { ...report, targets: report.targets.map(withCommand) };
}

/** The content of `/api/status`. Its tag stays the same as long as nothing but the clock has moved. */
export function statusBody(report: DaemonReport): BufferedBody {
  const status = statusOf(report);
  const still = { ...status, nowMs: 0, liveness: { ...status.liveness, silentMs: 0 } };
  return json(status, JSON.stringify(still));
}

function json(value: unknown, mark: string | null = null): BufferedBody {
  return packableBody('application/json; charset=utf-8', JSON.stringify(value), mark);
}

/** A time that comes from a clock, or a disk, that was wrong may be none that can be written. */
function isoTime(timeMs: number): string | null {
  const time = new Date(timeMs);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function withCommand(status: TargetStatus): StatusReport['targets'][number] {
  return status.held === null ? status : { ...status, approveCommand: ownCommand('approve', status.target) };
}
