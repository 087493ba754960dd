import { counted, roughSize } from '../model/humanize.ts';
import { EVENT_LEVELS, type EventLevel, type EventSink, type MirrorEvent } from '../model/events.ts';
import { isTold, type Loudness } from '../model/loudness.ts';
import { endsPull } from '../model/live.ts';
import { describeEvent } from './messages.ts';
import { scrub } from '../model/scrub.ts';
import { ERASE_LINE, escaped, say, type TerminalText } from '../model/terminal-text.ts';

/** Where progress is shown. */
export interface ProgressOptions {
  readonly write: (text: TerminalText, level: EventLevel) => void;
  /** Whether a line can be overwritten: true on a terminal. */
  readonly isTerminal: boolean;
  readonly columns: () => number;
  /** A quiet one tells of errors alone, and draws no line at the bottom. */
  readonly loudness: Loudness;
  readonly secrets: () => readonly string[];
}

interface Counts {
  planned: number;
  done: number;
  bytes: number;
  running: string[];
}

/**
 * Shows a pass to a person: a line for everything worth knowing and, on a terminal, one line at the bottom that says how
 * far it is. A pass that fails as a whole is left to the command, which ends with it.
 */
export function createProgress(options: ProgressOptions): EventSink {
  const counts: Counts = { planned: 0, done: 0, bytes: 0, running: [] };
  const hasBar = options.isTerminal && options.loudness !== 'quiet';
  const clean = (text: string): TerminalText => escaped(scrub(text, options.secrets()));
  const line = (text: string, level: EventLevel): void => {
    options.write(say`${hasBar ? ERASE_LINE : ''}${clean(text)}\n`, level);
  };
  const bar = (): void => {
    if (!hasBar || counts.planned === 0) return;
    options.write(say`${ERASE_LINE}${clean(barOf(counts)).cut(options.columns() - 1)}`, 'info');
  };
  return (event) => {
    count(counts, event);
    if (event.name === 'pass.finished' || event.name === 'pass.failed' || event.name === 'pass.abandoned') {
      if (event.name === 'pass.failed' && hasBar && counts.planned > 0) options.write(ERASE_LINE, 'info');
      counts.planned = 0;
    }
    if (isTold(event, options.loudness) && event.name !== 'pass.failed')
      line(`${markOf(event)} ${String(describeEvent(event))}`, EVENT_LEVELS[event.name]);
    bar();
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

function barOf({ planned, done, bytes, running }: Counts): string {
  const filled = Math.round((20 * done) / planned);
  const bar = `${'█'.repeat(filled)}${'░'.repeat(20 - filled)}`;
  const now = running.length === 0 ? '' : `, pulling ${running.join(', ')}`;
  return `${bar} ${done} of ${counted(planned, 'target')}, ${roughSize(bytes)}${now}`;
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
