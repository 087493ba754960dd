import { driftSentence, heldSentence, DAMAGED } from '../../app/messages.ts';
import { isLeftAlone, isWell, plainState, type TargetStatus } from '../../app/target-status.ts';
import { agoText, counted, oneLine, partsOf, roughSize, utcTime } from '../../lib/text/humanize.ts';
import { ownCommand } from '../../lib/text/own-command.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { missingSentence } from '../../mirror/plan/contradictions.ts';
import { table, textOf } from '../frame/output.ts';

/** Up to this number, all targets are listed. */
const FEW_TARGETS = 20;

/** The targets to list without being asked for all of them, or for some by name: of many only those that need attention. */
export function usuallyListed(targets: readonly TargetStatus[]): readonly TargetStatus[] {
  if (targets.length <= FEW_TARGETS) return targets;
  return targets.filter(
    (each) => !isWell(each) || each.state === 'missing' || each.missingWorkbooks.length > 0,
  );
}

/** Describes the listed targets, a line each, and counts the others. */
export function targetTable(listed: readonly TargetStatus[], total: number, nowMs: number): TerminalText {
  if (total === 0) return say`Nothing is mirrored yet.`;
  const ago = (timeMs: number | null): string => (timeMs === null ? 'never' : agoText(timeMs, nowMs));
  const rows = listed.map((target) => [
    plainState(target.state),
    ago(target.verifiedAtMs),
    ago(target.changedAtMs),
    String(target.files),
    roughSize(target.sizeBytes),
    target.target,
  ]);
  const headings = ['STATE', 'VERIFIED', 'CHANGED', 'FILES', 'SIZE', 'TARGET'];
  const listing = table(headings, rows, listed.map(troubleOf));
  const others = total - listed.length;
  if (others === 0) return listing;
  const lists = `\`${ownCommand('status --all')}\` lists every one.`;
  if (listed.length === 0) return say`No target needs attention: ${lists}`;
  return textOf(listing, '', `${counted(others, 'other target')} need no attention: ${lists}`);
}

/** The line below a target with a problem; empty for a target without one. */
function troubleOf({ target, state, isStale, failure, held, drift, ...status }: TargetStatus): string {
  const next = status.nextAttemptAtMs;
  return partsOf(
    ![plainState(state), 'stale'].includes(state) && state,
    state === 'damaged' && DAMAGED,
    isStale && state !== 'damaged' && plainState(state) !== 'late' && !isLeftAlone(state) && 'late',
    failure !== null && `${failure.code}: ${oneLine(failure.message).replace(/\.$/, '')}`,
    failure !== null && next !== null && `tried again after ${utcTime(next)}`,
    drift !== null && state !== 'damaged' && `someone changed it: ${driftSentence(drift)}`,
    held !== null && `${heldSentence(held)}; ${ownCommand('approve', target)}`,
    status.restoredAtMs !== null && `restored from the history at ${utcTime(status.restoredAtMs)}`,
    status.missingWorkbooks.length > 0 && missingSentence(status.missingWorkbooks),
  ).join('; ');
}
