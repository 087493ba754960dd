import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { createProgress } from '../../../../src/cli/change/progress.ts';
import { PullMonitor } from '../../../../src/mirror/pass/events.ts';
import { NOW_MS, passFinished, pulledEvent, pullProgress } from '../../../support/builders.ts';

const CLEAR = '\r\u001b[K';

interface Options extends Partial<NonNullable<Parameters<typeof createProgress>[2]>> {
  readonly secrets?: readonly string[];
  readonly monitor?: Parameters<typeof createProgress>[1];
}

function show({ secrets = [], monitor = new PullMonitor(), ...options }: Options = {}) {
  const written: string[] = [];
  const { sink: emit, close } = createProgress(secrets, monitor, {
    write: (text) => written.push(String(text)),
    isTerminal: true,
    columns: () => 100,
    loudness: 'normal',
    now: Date.now,
    ...options,
  });
  onTestFinished(close);
  emit({ name: 'pass.started', trigger: 'command' });
  written.length = 0;
  return { emit, written, bar: () => written.at(-1)?.replace(CLEAR, '') ?? '' };
}

const PLANNED: MirrorEvent = { name: 'pass.planned', pull: 2, keep: 3, hold: 0, retire: 0 };
const started = (target: string): MirrorEvent => ({ name: 'target.started', target, reason: 'full-check' });
const pulled = (target: string) => pulledEvent({ target, downloadedBytes: 1500, durationMs: 10 });
const FULL = { code: 'disk.full', message: 'full', hint: null } as const;
const failed = (target: string): MirrorEvent => ({
  name: 'target.failed',
  target,
  ...FULL,
  attempts: 1,
  nextAttemptAtMs: NOW_MS,
});
const FINISHED: MirrorEvent = { name: 'pass.finished', ...passFinished({ targets: 1 }) };

const ABANDONED: MirrorEvent = { name: 'pass.abandoned', trigger: 'command', durationMs: 1 };
const FAILED_PASS: MirrorEvent = { name: 'pass.failed', trigger: 'command', durationMs: 1, ...FULL };

beforeEach(() => void vi.useFakeTimers({ now: NOW_MS }));

describe('progress on a terminal', () => {
  it('shows in the bottom line how far the pass is', () => {
    const { emit, bar } = show();
    emit(PLANNED);
    expect(bar()).toBe('0 of 2 targets, 0 B');
    emit(started('a/main'));
    emit(pulled('a/main'));
    emit(started('b/main'));
    vi.advanceTimersByTime(300);
    expect(bar()).toBe('1 of 2 targets, 1.5 kB');
    emit(failed('b/main'));
    vi.advanceTimersByTime(300);
    expect(bar()).toBe('2 of 2 targets, 1.5 kB');
  });

  it('writes lines above that line', () => {
    const { emit, written } = show();
    emit(PLANNED);
    written.length = 0;
    emit({ name: 'listing.problem', problem: 'odd' });
    vi.advanceTimersByTime(300);
    expect(written).toEqual([`${CLEAR}! odd\n`, `${CLEAR}0 of 2 targets, 0 B`]);
  });

  it.each<MirrorEvent>([FINISHED, ABANDONED, FAILED_PASS])('has no such line after $name', (event) => {
    const { emit, written } = show();
    emit(PLANNED);
    emit(event);
    const last = written.at(-1) ?? '';
    expect(last.endsWith('\n') || last.endsWith(CLEAR)).toBe(true);
    written.length = 0;
    vi.advanceTimersByTime(1000);
    expect(written).toEqual([]);
  });

  it('leaves the report of a failed pass to the command', () => {
    const { emit, written } = show();
    emit(FAILED_PASS);
    expect(written).toEqual([]);
  });

  it('shows how far the longest-running pull is', () => {
    const second = pullProgress({ target: 'b/main', phase: 'publishing', downloadedBytes: 5e6 });
    const monitor = { pulls: () => [pullProgress(), second], scan: () => null };
    const { emit, bar } = show({ monitor, columns: () => 160 });
    emit(PLANNED);
    expect(bar()).toBe(
      '0 of 2 targets, 517 MB; downloading 512 MB of 2.0 GB, 41.0 MB/s, 36 s left: git.example.com/org/big/main; 1 more',
    );
  });

  it.each([20, 1, 0])('stays within %i columns, and is text', (columns) => {
    const pulls = [pullProgress({ target: 'a\u202e'.repeat(200) })];
    const { emit, bar } = show({ columns: () => columns, monitor: { pulls: () => pulls, scan: () => null } });
    emit(PLANNED);
    expect(bar().length).toBeLessThanOrEqual(Math.max(0, columns - 1));
    expect(bar()).not.toContain('\u202e');
  });

  it('shows how far the scan of all trees is, before there is a plan', () => {
    const { bar } = show({ monitor: { pulls: () => [], scan: () => ({ doneTargets: 3, targets: 10 }) } });
    vi.advanceTimersByTime(300);
    expect(bar()).toBe('comparing trees with their manifests: 3 of 10');
  });
});

describe('progress elsewhere', () => {
  it('consists of lines only, with one every 30 seconds about how far the pass is', () => {
    const { emit, written } = show({ isTerminal: false });
    for (const event of [PLANNED, started('a/main'), pulled('a/main')]) emit(event);
    vi.advanceTimersByTime(29_000);
    expect(written).toEqual(['✓ a/main: no file changed (full-check, 1.5 kB in 10 ms)\n']);
    vi.advanceTimersByTime(1250);
    expect(written.slice(1)).toEqual(['· 1 of 2 targets, 1.5 kB\n']);
  });

  it.each<[MirrorEvent, string]>([
    [failed('a/main'), '✗ a/main: full\n'],
    [{ name: 'listing.problem', problem: 'odd' }, '! odd\n'],
    [{ name: 'target.absent', target: 'a/main' }, '· a/main: the service has no contents there (yet)\n'],
    [pulled('a/main'), '✓ a/main: no file changed (full-check, 1.5 kB in 10 ms)\n'],
  ])('marks the level of an event: $0.name', (event, line) => {
    const { emit, written } = show({ isTerminal: false });
    emit(event);
    expect(written).toEqual([line]);
  });

  it('holds no secrets', () => {
    const { emit, written } = show({ isTerminal: false, secrets: ['s3cr3t'] });
    emit({ name: 'listing.problem', problem: 'the key s3cr3t' });
    expect(written).toEqual(['! the key [secret]\n']);
  });
});

describe('progress by verbosity', () => {
  const EVENTS = [PLANNED, started('a/main'), pulled('a/main'), failed('b/main'), FINISHED];

  it('shows only errors, without the bottom line, when quiet', () => {
    const { emit, written } = show({ loudness: 'quiet' });
    for (const event of EVENTS) emit(event);
    expect(written).toEqual(['✗ b/main: full\n']);
  });

  it.each([{ failed: 1 }, { held: 1 }])('reports a pass with problems even when quiet: %j', (counts) => {
    const { emit, written } = show({ loudness: 'quiet' });
    emit({ ...FINISHED, ...counts });
    expect(written).toHaveLength(1);
  });

  it('shows every step when verbose', () => {
    const { emit, written } = show({ loudness: 'verbose', isTerminal: false });
    for (const event of EVENTS) emit(event);
    expect(written).toHaveLength(EVENTS.length);
  });
});
