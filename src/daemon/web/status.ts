import { ownCommand } from '../../lib/text/own-command.ts';
import type { DaemonReport } from '../status/report.ts';
import type { TargetStatus } from '../../mirror/plan/target-status.ts';
import { type Body, jsonBody } from './body.ts';
import type { StatusReport } from './status-schema.ts';

/** What `/api/status` says: the report, and for each held deletion how to let it go. */
export function statusOf(report: DaemonReport): StatusReport {
  return { ...report, targets: report.targets.map(withCommand) };
}

/** The answer of `/api/status`. Its tag stays the same as long as nothing but the clock has moved. */
export function statusBody(report: DaemonReport): Body {
  const status = statusOf(report);
  const still = { ...status, nowMs: 0, liveness: { ...status.liveness, silentMs: 0 } };
  return jsonBody(status, JSON.stringify(still));
}

function withCommand(status: TargetStatus): StatusReport['targets'][number] {
  return status.held === null ? status : { ...status, approveCommand: ownCommand('approve', status.target) };
}
