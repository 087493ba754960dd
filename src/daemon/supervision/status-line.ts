import { counted, oneLine, utcTime } from '../../lib/text/humanize.ts';
import type { CurrentPass, Live, PassNote } from '../status/live.ts';
import { escaped, type TerminalText } from '../../lib/text/terminal-text.ts';

/** How many targets are named of those that are being pulled. */
const NAMED = 3;

/** One line that says what the daemon is doing, for a supervisor (systemd: `STATUS=` of sd_notify(3)). */
export function describeLive(live: Live): TerminalText {
  return escaped(
    live.isStopping
      ? 'stopping'
      : `${live.pass === null ? describeRest(live) : describePass(live.pass)}${describeSlow(live)}${describeHttp(live)}`,
  );
}

function describePass({ trigger, planned, done, pulling }: CurrentPass): string {
  if (planned === null) return `pass (${trigger}): asking the service`;
  const now = pulling.length === 0 ? '' : `; pulling ${named(pulling)}`;
  return `pass (${trigger}): ${done} of ${counted(planned.pull, 'pull')} done${now}`;
}

/** The pulls that take long, of whatever pass they are. */
function describeSlow({ slow }: Live): string {
  return slow.length === 0 ? '' : `; still pulling ${named(slow.map(({ target }) => target))}`;
}

/** Whoever asks for the status page finds nobody there who could say why. */
function describeHttp({ http }: Live): string {
  return http.problem === null ? '' : `; no status page: ${oneLine(http.problem.message)}`;
}

function named(targets: readonly string[]): string {
  return `${targets.slice(0, NAMED).join(', ')}${targets.length > NAMED ? ', …' : ''}`;
}

function describeRest({ passes, nextPassAtMs, settings }: Live): string {
  const last = passes.at(-1);
  return [
    ...(last === undefined ? ['no pass yet'] : [describeEnd(last)]),
    ...(settings.problem === null ? [] : [`new settings refused: ${oneLine(settings.problem.message)}`]),
    ...(nextPassAtMs === null ? [] : [`next pass at ${utcTime(nextPassAtMs)}`]),
  ].join('; ');
}

function describeEnd({ result, summary, failure }: PassNote): string {
  if (failure !== null) return `last pass failed: ${failure.message}`;
  if (summary === null) return `last pass ${result}`;
  const { targets, failed, held } = summary;
  return [
    `${counted(targets, 'target')} looked at`,
    ...(failed > 0 ? [`${failed} failed`] : []),
    ...(held > 0 ? [`${held} held`] : []),
  ].join(', ');
}
