import { counted, roughSize } from '../../lib/text/humanize.ts';
import { EVENT_LEVELS, type EventLevel, type EventSink, type MirrorEvent } from '../../app/events.ts';
import { isTold, type Loudness } from '../frame/loudness.ts';
import { endsPull } from '../../daemon/status/live.ts';
import { describePhase, describeEvent } from '../../app/messages.ts';
import type { PullProgress, ScanProgress } from '../../mirror/pass/events.ts';
import { scrub } from '../../lib/text/scrub.ts';
import { ERASE_LINE, escaped, say, type TerminalText } from '../../lib/text/terminal-text.ts';

/** Where progress is shown. */
export interface ProgressOptions {
  readonly write: (text: TerminalText, level: EventLevel) => void;
  /** Whether a line can be overwritten: true on a terminal. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  /** A quiet one tells of errors alone, and draws no line at the bottom. */
  readonly loudness: Loudness;
  readonly secrets: () => readonly string[];
  /** The work under way. */
  readonly monitor: {
    readonly pulls: () => readonly PullProgress[];
    readonly scan: () => ScanProgress | null;
  };
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Shows a pass to a person. */
export interface Progress {
  readonly sink: EventSink;
  /** Looks at nothing any more. */
  readonly close: () => void;
}

interface Counts {
  planned: number;
  done: number;
  bytes: number;
  running: string[];
}

/** How often the line at the bottom is drawn anew, in milliseconds. */
const REDRAW_MS = 250;

/** Where nothing can be overwritten: the time between two reports of a pull that takes long, in milliseconds. */
const TOLD_EVERY_MS = 30_000;

/** Where nothing can be overwritten: the most pulls that are reported at a time. */
const TOLD_PULLS = 4;

/**
 * Shows a pass to a person: a line for everything worth knowing and, on a terminal, one line at the bottom that says how
 * far it is; elsewhere a line now and then for what takes long. A pass that fails as a whole is left to the command, which ends with it.
 */
export function createProgress(options: ProgressOptions): Progress {
  const { monitor, loudness } = options;
  const counts: Counts = { planned: 0, done: 0, bytes: 0, running: [] };
  let isDrawn = false;
  const hasBar = options.isTerminal && loudness !== 'quiet';
  const clean = (text: string): TerminalText => escaped(scrub(text, options.secrets()));
  const line = (text: string, level: EventLevel): void => {
    options.write(say`${hasBar ? ERASE_LINE : ''}${clean(text)}\n`, level);
    isDrawn = false;
  };
  const bar = (): void => {
    const columns = options.columns() - 1;
    const text = hasBar ? barOf(counts, monitor.pulls(), monitor.scan(), columns) : null;
    if (text !== null) options.write(say`${ERASE_LINE}${clean(text).cut(columns)}`, 'info');
    else if (isDrawn) options.write(ERASE_LINE, 'info');
    isDrawn = text !== null;
  };
  const tellSlow = (): void => {
    const nowMs = options.now();
    const slow = monitor.pulls().filter(({ startedAtMs }) => nowMs - startedAtMs >= TOLD_EVERY_MS);
    for (const pull of slow.slice(0, TOLD_PULLS)) line(`· ${pull.target}: ${describePhase(pull)}`, 'info');
    if (slow.length > TOLD_PULLS) line(`· and ${slow.length - TOLD_PULLS} more`, 'info');
  };
  const isSilent = !hasBar && loudness === 'quiet';
  const timer = isSilent
    ? undefined
    : setInterval(hasBar ? bar : tellSlow, hasBar ? REDRAW_MS : TOLD_EVERY_MS);
  timer?.unref();
  return {
    sink: (event) => {
      count(counts, event);
      if (event.name === 'pass.finished' || event.name === 'pass.failed' || event.name === 'pass.abandoned')
        counts.planned = 0;
      if (isTold(event, loudness) && event.name !== 'pass.failed')
        line(`${markOf(event)} ${String(describeEvent(event))}`, EVENT_LEVELS[event.name]);
      bar();
    },
    close: () => {
      clearInterval(timer);
      if (isDrawn) options.write(ERASE_LINE, 'info');
      isDrawn = false;
    },
  };
}

function count(counts: Counts, event: MirrorEvent): void {
  if (event.name === 'pass.planned') {
    Object.assign(counts, { planned: event.pull, done: 0, bytes: 0, running: [] });
  } else if (event.name === 'target.started') {
    counts.running.push(event.target);
  } else if (endsPull(event) && counts.running.includes(event.target)) {
    counts.running = counts.running.filter((target) => target !== event.target);
    counts.done += 1;
    if (event.name === 'target.pulled') counts.bytes += event.downloadedBytes;
  }
}

/** Cells of the bar: as many as leave room for the rest of the line. */
const CELLS = [20, 8] as const;

/** The shortest that the name of a target is cut to, in characters. */
const LEAST_NAME = 12;

/**
 * One line that says how far a pass is: how many targets, how many bytes, and what the pull is at that has taken longest.
 * @returns null where there is nothing to say
 */
function barOf(
  { planned, done, bytes }: Counts,
  pulls: readonly PullProgress[],
  scan: ScanProgress | null,
  columns: number,
): string | null {
  if (planned === 0)
    return scan === null
      ? null
      : `holding trees against their manifests: ${scan.doneTargets} of ${scan.targets}`;
  const arrived = bytes + pulls.reduce((sum, { downloadedBytes }) => sum + downloadedBytes, 0);
  const counts = `${done} of ${counted(planned, 'target')}, ${roughSize(arrived)}`;
  const [longest] = pulls;
  const others = pulls.length < 2 ? '' : `; ${pulls.length - 1} more`;
  const phase = longest === undefined ? '' : `: ${describePhase(longest)}${others}`;
  const name = longest === undefined ? '' : longest.target;
  // A space after the bar, and what separates the name from what is before it.
  const restLength = counts.length + phase.length + (name === '' ? 1 : 3);
  const cells = CELLS.find((each) => each + restLength + name.length <= columns) ?? CELLS[1];
  const filled = Math.round((cells * done) / planned);
  const bar = `${'█'.repeat(filled)}${'░'.repeat(cells - filled)}`;
  const shownName = shortened(name, Math.max(LEAST_NAME, columns - cells - restLength));
  return `${bar} ${counts}${name === '' ? '' : `; ${shownName}${phase}`}`;
}

/** A name with its end, which tells more than its beginning where there is no room for all. */
function shortened(name: string, length: number): string {
  const letters = Array.from(name);
  return letters.length <= length ? name : `…${letters.slice(letters.length - length + 1).join('')}`;
}

function markOf(event: MirrorEvent): string {
  switch (EVENT_LEVELS[event.name]) {
    case 'error':
      return '✗';
    case 'warn':
      return '!';
    case 'info':
    case 'debug':
      if (event.name === 'pass.finished') return event.failed > 0 || event.held > 0 ? '!' : '✓';
      return event.name === 'target.pulled' ? '✓' : '·';
  }
}
