import { levelOf, type MirrorEvent } from '../../app/events.ts';
import { describeEvent, describePhase } from '../../app/messages.ts';
import { initialLive, nextLive } from '../../daemon/status/live.ts';
import type { Live } from '../../daemon/status/status-schema.ts';
import { counted, roughSize } from '../../lib/text/humanize.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { PullMonitor, type PullProgress, type ScanProgress } from '../../mirror/pass/events.ts';
import { createLiveLine, liveLineOptions } from '../frame/live-line.ts';
import { isShown } from '../frame/output.ts';

/** Period of the live line without events, in milliseconds. */
const TICK_MS = 250;

/**
 * Shows a pass to a person, on standard error: a line for each notable event, and a live line of progress. The command itself reports
 * a pass that fails as a whole.
 * @param secrets are masked in it
 * @param monitor knows the running work
 */
export function createProgress(
  secrets: readonly string[],
  monitor: Pick<PullMonitor, 'pulls' | 'scan'> = new PullMonitor(),
  options = liveLineOptions(),
) {
  const { loudness } = options;
  let state = initialLive(0);
  /** Downloaded by the ended pulls of the pass. */
  let bytes = 0;
  const live = createLiveLine(options);
  const show = (): void => {
    const text = describeProgress(state.pass, bytes, monitor.pulls(), monitor.scan());
    if (text === null) live.clear();
    else live.show(() => scrub(text, secrets));
  };
  const timer = setInterval(show, TICK_MS);
  timer.unref();
  return {
    sink: (event: MirrorEvent): void => {
      state = nextLive(state, event, Date.now());
      if (event.name === 'pass.started') bytes = 0;
      if (event.name === 'target.pulled') bytes += event.downloadedBytes;
      if (isShown(event, loudness) && event.name !== 'pass.failed')
        live.line(scrub(`${markOf(event)} ${String(describeEvent(event))}`, secrets), levelOf(event));
      show();
    },
    live: (): Live => state,
    /** Removes the live line for good. */
    close: (): void => {
      clearInterval(timer);
      live.clear();
    },
  };
}

/** The targets and bytes so far, and the state of the longest pull; null if nothing is running. */
function describeProgress(
  pass: Live['pass'],
  bytes: number,
  pulls: readonly PullProgress[],
  scan: ScanProgress | null,
): string | null {
  const planned = pass?.planned?.pull ?? 0;
  if (pass === null || planned === 0)
    return scan === null
      ? null
      : `comparing trees with their manifests: ${scan.doneTargets} of ${scan.targets}`;
  const arrived = bytes + pulls.reduce((sum, { downloadedBytes }) => sum + downloadedBytes, 0);
  const [longest] = pulls;
  const phase = longest === undefined ? '' : `; ${describePhase(longest)}: ${longest.target}`;
  const others = pulls.length < 2 ? '' : `; ${pulls.length - 1} more`;
  return `${pass.done} of ${counted(planned, 'target')}, ${roughSize(arrived)}${phase}${others}`;
}

function markOf(event: MirrorEvent): string {
  const level = levelOf(event);
  if (level === 'error') return '✗';
  if (level === 'warn') return '!';
  if (event.name === 'pass.finished') return event.failed > 0 || event.held > 0 ? '!' : '✓';
  return event.name === 'target.pulled' ? '✓' : '·';
}
