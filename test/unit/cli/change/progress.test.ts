import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { EventSink, MirrorEvent } from '../../../../src/app/events.ts';
import type { PullProgress } from '../../../../src/mirror/pass/events.ts';
import { createProgress, type ProgressOptions } from '../../../../src/cli/change/progress.ts';
import { NOW_MS, passFinished } from '../../../support/builders.ts';

const CLEAR = '\r\u001b[K';

function show(options: Partial<ProgressOptions> = {}): {
  emit: EventSink;
  written: string[];
  bar: () => string;
} {
  const written: string[] = [];
  const { sink: emit, close } = createProgress({
    write: (text) => written.push(String(text)),
    isTerminal: true,
    columns: () => 100,
    loudness: 'normal',
    secrets: () => [],
    monitor: { pulls: () => [], scan: () => null },
    now: Date.now,
    ...options,
  });
  onTestFinished(close);
  return { emit, written, bar: () => written.at(-1)?.replace(CLEAR, '') ?? '' };
}

function pulling(fields: Partial<PullProgress> = {}): PullProgress {
  return {
    target: 'git.example.com/org/big/main',
    phase: 'downloading',
    startedAtMs: NOW_MS,
    downloadedBytes: 512e6,
    doneBytes: 512e6,
    totalBytes: 2e9,
    isEstimate: false,
    bytesPerSecond: 41e6,
    leftMs: 36_293,
    ...fields,
  };
}

const PLANNED: MirrorEvent = { name: 'pass.planned', pull: 2, keep: 3, hold: 0, retire: 0 };
const started = (target: string): MirrorEvent => ({ name: 'target.started', target, reason: 'full-check' });
const pulled = (target: string): MirrorEvent => ({
  name: 'target.pulled',
  target,
  reason: 'full-check',
  method: 'none',
  downloadedBytes: 1500,
  files: 1,
  added: 0,
  changed: 0,
  removed: 0,
  durationMs: 10,
});
const failed = (target: string): MirrorEvent => ({
  name: 'target.failed',
  target,
  code: 'disk.full',
  message: 'full',
  hint: null,
  attempts: 1,
  nextAttemptAtMs: NOW_MS,
});
const FINISHED: MirrorEvent = {
  name: 'pass.finished',
  ...passFinished({ trigger: 'command', targets: 1 }),
};

const ABANDONED: MirrorEvent = { name: 'pass.abandoned', trigger: 'command', durationMs: 1 };
const FAILED_PASS: MirrorEvent = {
  name: 'pass.failed',
  trigger: 'command',
  durationMs: 1,
  code: 'service.unreachable',
  message: 'gone',
  hint: null,
};

describe('progress on a terminal', () => {
  it('has a bar at the bottom that says how far the pass is', () => {
    const { emit, bar } = show();
    emit(PLANNED);
    expect(bar()).toBe('░░░░░░░░░░░░░░░░░░░░ 0 of 2 targets, 0 B');
    emit(started('a/main'));
    emit(started('b/main'));
    emit(pulled('a/main'));
    expect(bar()).toBe('██████████░░░░░░░░░░ 1 of 2 targets, 1.5 kB');
    emit(failed('b/main'));
    expect(bar()).toBe('████████████████████ 2 of 2 targets, 1.5 kB');
  });

  it('writes lines above the bar and draws it again', () => {
    const { emit, written } = show();
    emit(PLANNED);
    emit(started('a/main'));
    written.length = 0;
    emit({ name: 'listing.problem', problem: 'odd' });
    expect(written).toEqual([`${CLEAR}! odd\n`, `${CLEAR}░░░░░░░░░░░░░░░░░░░░ 0 of 2 targets, 0 B`]);
  });

  it.each<MirrorEvent>([FINISHED, ABANDONED])('has no bar after $name', (event) => {
    const { emit, bar, written } = show();
    emit(PLANNED);
    written.length = 0;
    emit(event);
    expect(written).toHaveLength(1);
    expect(bar()).toMatch(/\n$/);
  });

  it('says nothing of a pass that failed as a whole, which the command does', () => {
    const { emit, written } = show();
    emit(FAILED_PASS);
    expect(written).toEqual([]);
  });

  it('leaves the line free for the command when a pass failed', () => {
    const { emit, written } = show();
    emit(PLANNED);
    emit(FAILED_PASS);
    const last = written.at(-1) ?? '';
    expect(last.endsWith('\n') || last.endsWith(CLEAR)).toBe(true);
  });

  it('begins anew with the next pass', () => {
    const { emit, bar } = show();
    emit(PLANNED);
    emit(started('a/main'));
    emit(ABANDONED);
    emit(PLANNED);
    expect(bar()).toBe('░░░░░░░░░░░░░░░░░░░░ 0 of 2 targets, 0 B');
  });

  it('has no bar where nothing is to be pulled', () => {
    const { emit, written } = show();
    emit({ name: 'pass.planned', pull: 0, keep: 3, hold: 0, retire: 0 });
    expect(written).toEqual([]);
  });

  it('does not count what it did not begin', () => {
    const { emit, bar } = show();
    emit(PLANNED);
    emit(failed('moved/main'));
    emit({ name: 'target.missing', target: 'gone/main', passes: 1 });
    expect(bar()).toMatch(/^░{20} 0 of 2/);
  });

  it.each([20, 1, 0])('keeps the bar within %i columns', (columns) => {
    const pulls = [pulling({ target: 'a'.repeat(200) })];
    const { emit, bar } = show({ columns: () => columns, monitor: { pulls: () => pulls, scan: () => null } });
    emit({ ...PLANNED, pull: 1 });
    expect(bar().length).toBeLessThanOrEqual(Math.max(columns, 300));
    if (columns > 0) expect(bar().length).toBeLessThan(columns);
  });

  it('is done with a target whose pull showed that its branch is gone', () => {
    const { emit, bar } = show();
    emit({ ...PLANNED, pull: 1 });
    emit(started('a/main'));
    emit({ name: 'target.retired', target: 'a/main', reason: 'branch-gone' });
    expect(bar()).toContain('1 of 1 target,');
  });

  it('says of the pull that has taken longest what it is at, and shortens its name before that', () => {
    const pulls = [pulling(), pulling({ target: 'b/main', phase: 'publishing', downloadedBytes: 5e6 })];
    const monitor = { pulls: () => pulls, scan: () => null };
    const wide = show({ monitor, columns: () => 160 });
    wide.emit(PLANNED);
    expect(wide.bar()).toBe(
      '░░░░░░░░░░░░░░░░░░░░ 0 of 2 targets, 517 MB; git.example.com/org/big/main: downloading 512 MB of 2.0 GB, 41.0 MB/s, 36 s left; 1 more',
    );
    const narrow = show({ monitor, columns: () => 100 });
    narrow.emit(PLANNED);
    expect(narrow.bar()).toBe(
      '░░░░░░░░ 0 of 2 targets, 517 MB; …rg/big/main: downloading 512 MB of 2.0 GB, 41.0 MB/s, 36 s left; ',
    );
  });

  it('moves on without any event, and goes when it is closed', () => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const pull = { ...pulling() };
    const { emit, bar, written } = show({ monitor: { pulls: () => [pull], scan: () => null } });
    emit(PLANNED);
    const before = bar();
    Object.assign(pull, { doneBytes: 1e9, downloadedBytes: 1e9 });
    vi.advanceTimersByTime(300);
    expect(bar()).not.toBe(before);
    expect(bar()).toContain('1.0 GB of 2.0 GB');
    emit(FINISHED);
    written.length = 0;
    vi.advanceTimersByTime(3000);
    expect(written).toEqual([]);
  });

  it('says how far a look at all trees is, before there is a plan', () => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const { bar } = show({ monitor: { pulls: () => [], scan: () => ({ doneTargets: 3, targets: 10 }) } });
    vi.advanceTimersByTime(300);
    expect(bar()).toBe('holding trees against their manifests: 3 of 10');
  });

  it('shows no character in the bar that turns the text around', () => {
    const { emit, bar } = show();
    emit(PLANNED);
    emit(started('a\u202e/main'));
    expect(bar()).not.toContain('\u202e');
  });
});

describe('progress elsewhere', () => {
  it('has a line now and then for what takes long, and for no more than four', () => {
    vi.useFakeTimers({ now: NOW_MS });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const pulls = [...Array(6).keys()].map((index) =>
      pulling({ target: `t${index}/main`, startedAtMs: NOW_MS + (index === 5 ? 20_000 : 0) }),
    );
    const { written } = show({ isTerminal: false, monitor: { pulls: () => pulls, scan: () => null } });
    vi.advanceTimersByTime(29_000);
    expect(written).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(written).toHaveLength(5);
    expect(written[0]).toBe('· t0/main: downloading 512 MB of 2.0 GB, 41.0 MB/s, 36 s left\n');
    expect(written[4]).toBe('· and 1 more\n');
  });

  it('is lines alone', () => {
    const { emit, written } = show({ isTerminal: false });
    for (const event of [PLANNED, started('a/main'), pulled('a/main'), FINISHED]) emit(event);
    expect(written).toEqual([
      '✓ a/main: no file changed (full-check, 1.5 kB in 10 ms)\n',
      '✓ 1 target looked at in 1 ms; nothing to pull\n',
    ]);
  });

  it.each<[MirrorEvent, string]>([
    [failed('a/main'), '✗ a/main: full\n'],
    [{ name: 'listing.problem', problem: 'odd' }, '! odd\n'],
    [{ name: 'target.absent', target: 'a/main' }, '· a/main: the service has no contents there (yet)\n'],
    [pulled('a/main'), '✓ a/main: no file changed (full-check, 1.5 kB in 10 ms)\n'],
  ])('is marked by how loud an event is: $0.name', (event, line) => {
    const { emit, written } = show({ isTerminal: false });
    emit(event);
    expect(written).toEqual([line]);
  });

  it('holds no secrets', () => {
    const { emit, written } = show({ isTerminal: false, secrets: () => ['s3cr3t'] });
    emit({ name: 'listing.problem', problem: 'the key s3cr3t' });
    expect(written).toEqual(['! the key [secret]\n']);
  });
});

describe('progress by how much is to be told', () => {
  const EVENTS: readonly MirrorEvent[] = [
    PLANNED,
    started('a/main'),
    pulled('a/main'),
    failed('b/main'),
    FINISHED,
  ];

  it('is errors alone and no line at the bottom when quiet', () => {
    const { emit, written } = show({ loudness: 'quiet' });
    for (const event of EVENTS) emit(event);
    expect(written).toEqual(['✗ b/main: full\n']);
  });

  it.each([{ failed: 1 }, { held: 1 }])(
    'says also when quiet how a pass ended that was not all well: %j',
    (counts) => {
      const { emit, written } = show({ loudness: 'quiet' });
      emit({ ...FINISHED, ...counts });
      expect(written).toHaveLength(1);
    },
  );

  it('is every step when verbose', () => {
    const { emit, written } = show({ loudness: 'verbose', isTerminal: false });
    for (const event of EVENTS) emit(event);
    expect(written).toHaveLength(EVENTS.length);
  });
});
