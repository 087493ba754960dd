import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import type { DaemonReport } from '../../../../src/daemon/status/status-schema.ts';
import type { TargetStatus } from '../../../../src/app/target-status.ts';
import { HOUR_MS, NOW_MS, passFinished } from '../../../support/builders.ts';
import { daemonReport, eventfulReport, targetStatus } from '../../../support/report.ts';
import { parseMetrics, type ScrapedSample } from '../../../support/text-format.ts';

const PREFIX = 'workbook_mirror_';

async function scrape(report: DaemonReport, metrics = createMetrics()): Promise<readonly ScrapedSample[]> {
  const { text } = await metrics.render(report);
  return parseMetrics(text).samples;
}

function valueOf(
  samples: readonly ScrapedSample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const found = samples.filter(
    (sample) =>
      sample.name === PREFIX + name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  expect(found.length).toBeLessThan(2);
  return found[0]?.value;
}

function named(samples: readonly ScrapedSample[], name: string): readonly ScrapedSample[] {
  return samples.filter((sample) => sample.name === PREFIX + name);
}

const FAILED = {
  name: 'target.failed',
  target: 'A/main',
  code: 'archive.damaged',
  message: 'no',
  hint: null,
  attempts: 1,
  nextAttemptAtMs: 0,
} as const;
const PULLED = {
  name: 'target.pulled',
  target: 'A/main',
  reason: 'changed',
  method: 'exchange',
  downloadedBytes: 100,
  files: 3,
  added: 1,
  changed: 2,
  removed: 3,
  durationMs: 250,
} as const;
const FINISHED = {
  name: 'pass.finished',
  ...passFinished({
    durationMs: 2000,
    targets: 1,
    pulled: 1,
    changed: 1,
    downloadedBytes: 100,
    changedFiles: 6,
  }),
} as const;

describe('the metrics', () => {
  it('are in the text format of Prometheus, with help, type and the usual metrics of the process', async () => {
    const metrics = createMetrics();
    const { contentType, text } = await metrics.render(eventfulReport());
    const { samples, families } = parseMetrics(text);
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(samples.map(({ name }) => name)).toContain('process_cpu_seconds_total');
    for (const [name, { help, type }] of families) {
      expect(help, name).not.toBe('');
      if (!name.startsWith(PREFIX)) continue;
      // The rules of Prometheus' own linter (promtool check metrics) that a name can break.
      expect(name).toMatch(/^[a-z][a-z0-9_]*[a-z0-9]$/);
      expect(name.endsWith('_total'), name).toBe(type === 'counter');
      expect(name, name).not.toMatch(/_(?:count|sum|bucket|ms|milliseconds|kb|mb|minutes)(?:_|$)/);
      expect(name, name).not.toContain(type);
    }
  });

  it('show the state of the daemon and of the mirror', async () => {
    const samples = await scrape(eventfulReport());
    expect({
      version: named(samples, 'build_info')[0]?.labels,
      ready: valueOf(samples, 'ready'),
      listed: valueOf(samples, 'listed'),
      notReady: valueOf(samples, 'not_ready_targets', { reason: 'stale' }),
      alive: valueOf(samples, 'alive'),
      silent: valueOf(samples, 'loop_silent_seconds'),
      slow: valueOf(samples, 'slow_pulls'),
      slowSince: valueOf(samples, 'oldest_slow_pull_start_timestamp_seconds'),
      next: valueOf(samples, 'next_pass_timestamp_seconds'),
      finished: valueOf(samples, 'last_pass_end_timestamp_seconds', { result: 'finished' }),
      failed: valueOf(samples, 'last_pass_end_timestamp_seconds', { result: 'failed' }),
      abandoned: valueOf(samples, 'last_pass_end_timestamp_seconds', { result: 'abandoned' }),
      settings: valueOf(samples, 'settings_ok'),
      restart: valueOf(samples, 'settings_restart_needed'),
      leases: valueOf(samples, 'leases'),
      free: valueOf(samples, 'disk_free_bytes'),
      repositories: valueOf(samples, 'upstream_repositories'),
      processing: valueOf(samples, 'upstream_workbooks_processing'),
      failedWorkbooks: valueOf(samples, 'upstream_workbooks_failed'),
      refused: valueOf(samples, 'credential_state', { credential: 'apiKey', state: 'refused' }),
      accepted: valueOf(samples, 'credential_state', { credential: 'apiKey', state: 'accepted' }),
      fresh: valueOf(samples, 'targets', { state: 'fresh' }),
      absent: valueOf(samples, 'targets', { state: 'absent' }),
      stale: valueOf(samples, 'stale_targets'),
      held: valueOf(samples, 'held_deletions'),
      drifted: valueOf(samples, 'drifted_trees'),
      files: valueOf(samples, 'files'),
    }).toEqual({
      version: { version: '1.2.3', node_version: process.versions.node },
      ready: 0,
      listed: 1,
      notReady: 1,
      alive: 0,
      silent: 90,
      slow: 1,
      slowSince: (NOW_MS - HOUR_MS) / 1000,
      next: NOW_MS / 1000 + 60,
      finished: (NOW_MS - HOUR_MS) / 1000 + 2,
      failed: NOW_MS / 1000 - 59.5,
      abandoned: undefined,
      settings: 0,
      restart: 1,
      leases: 1,
      free: 500,
      repositories: 3,
      processing: 1,
      failedWorkbooks: 2,
      refused: 1,
      accepted: 0,
      fresh: 1,
      absent: 0,
      stale: 2,
      held: 1,
      drifted: 1,
      files: 15,
    });
  });

  it('show the own share and the count, if there are several', async () => {
    const samples = await scrape(daemonReport({ shard: { index: 2, count: 5 } }));
    expect(named(samples, 'shard_info')).toMatchObject([{ labels: { index: '2', count: '5' }, value: 1 }]);
    expect(valueOf(samples, 'shards')).toBe(5);
    expect(valueOf(await scrape(daemonReport()), 'shards')).toBeUndefined();
  });

  it('omit unknown values', async () => {
    const samples = await scrape(daemonReport({ disk: null, targets: [] }));
    for (const name of [
      'upstream_repositories',
      'next_pass_timestamp_seconds',
      'disk_free_bytes',
      'oldest_verified_timestamp_seconds',
    ])
      expect(valueOf(samples, name), name).toBeUndefined();
  });

  it('show the state of each target', async () => {
    const samples = await scrape(eventfulReport());
    const failing = { repository: 'Failing', branch: 'main' };
    expect(valueOf(samples, 'target_stale', failing)).toBe(1);
    expect(valueOf(samples, 'target_failures', failing)).toBe(3);
    expect(valueOf(samples, 'target_state', failing)).toBe(1);
    expect(
      named(samples, 'target_state').find(({ labels }) => labels['repository'] === 'Failing')?.labels,
    ).toEqual({ ...failing, state: 'failing' });
    expect(valueOf(samples, 'target_last_verified_timestamp_seconds', failing)).toBe(NOW_MS / 1000 - 60);
    expect(valueOf(samples, 'target_last_verified_timestamp_seconds', { repository: 'New' })).toBeUndefined();
  });

  it('accept names of any kind', async () => {
    const names = [
      'quo"te/main',
      'back\\slash/main',
      'line\nfeed/main',
      'both\\n"\\/main',
      'carriage\rreturn/main',
      '} 1\nup 0/main',
      'lone \ud800 surrogate/main',
      'github.com/org/plan.git/feature%2Fx',
      'nothing',
      '/main',
      '__proto__/constructor',
      'a,b="c"/main',
      '\u2028 \u0000 \u202e/main',
      '😀/main',
    ];
    const samples = await scrape(daemonReport({ targets: names.map((target) => targetStatus({ target })) }));
    const seen = named(samples, 'target_stale').map(
      ({ labels }) => `${labels['repository']}/${labels['branch']}`,
    );
    expect(seen).toEqual(names.map((name) => (name.includes('/') ? name : `/${name}`).toWellFormed()));
  });

  it('count each thing that happens, from 0 on', async () => {
    const metrics = createMetrics();
    const before = await scrape(daemonReport(), metrics);
    expect(valueOf(before, 'pulls_total', { result: 'published' })).toBe(0);
    expect(valueOf(before, 'passes_total', { trigger: 'schedule', result: 'finished' })).toBe(0);
    for (const event of [
      PULLED,
      PULLED,
      { ...PULLED, method: 'none', added: 0, changed: 0, removed: 0 },
      FAILED,
      { name: 'target.held', target: 'A/main', reason: 'processing', untilMs: null },
      { name: 'target.absent', target: 'A/main' },
      { name: 'target.retired', target: 'A/main', reason: 'gone' },
      FINISHED,
      {
        name: 'pass.failed',
        trigger: 'start',
        durationMs: 10,
        code: 'service.timeout',
        message: 'late',
        hint: null,
      },
      { name: 'service.retry', code: 'service.busy', message: 'busy', hint: null, delayMs: 10, fromBytes: 0 },
      { name: 'hook.failed', code: 'hook.failed', message: 'no', hint: null, hook: 'h', target: null },
      {
        name: 'notification.failed',
        code: 'service.timeout',
        message: 'no',
        hint: null,
        to: 'webhook',
        attempts: 3,
      },
      { name: 'state.failed', code: 'state.unavailable', message: 'no', hint: null },
    ] as const)
      metrics.sink(event);
    const after = await scrape(daemonReport(), metrics);
    expect({
      published: valueOf(after, 'pulls_total', { result: 'published' }),
      unchanged: valueOf(after, 'pulls_total', { result: 'unchanged' }),
      failed: valueOf(after, 'pulls_total', { result: 'failed' }),
      held: valueOf(after, 'pulls_total', { result: 'held' }),
      absent: valueOf(after, 'pulls_total', { result: 'absent' }),
      bytes: valueOf(after, 'downloaded_bytes_total'),
      removed: valueOf(after, 'changed_files_total', { kind: 'removed' }),
      pulls: valueOf(after, 'pull_duration_seconds_count'),
      seconds: valueOf(after, 'pull_duration_seconds_sum'),
      within: valueOf(after, 'pull_duration_seconds_bucket', { le: '0.3' }),
      passes: valueOf(after, 'passes_total', { trigger: 'schedule', result: 'finished' }),
      failedPasses: valueOf(after, 'passes_total', { trigger: 'start', result: 'failed' }),
      passSeconds: valueOf(after, 'pass_duration_seconds_sum', { result: 'finished' }),
      retried: valueOf(after, 'requests_retried_total', { code: 'service.busy' }),
      retired: valueOf(after, 'retired_targets_total'),
      hooks: valueOf(after, 'hook_runs_total', { result: 'failed' }),
      webhook: valueOf(after, 'notification_failures_total', { to: 'webhook' }),
      state: valueOf(after, 'state_failures_total'),
      stateFailing: valueOf(after, 'state_failing'),
    }).toEqual({
      published: 2,
      unchanged: 1,
      failed: 1,
      held: 1,
      absent: 1,
      bytes: 300,
      removed: 6,
      pulls: 3,
      seconds: 0.75,
      within: 3,
      passes: 1,
      failedPasses: 1,
      passSeconds: 2,
      retried: 1,
      retired: 1,
      hooks: 1,
      webhook: 1,
      state: 1,
      stateFailing: 1,
    });
  });

  it('name at most 1,000 targets, problems first, and count the omitted ones', async () => {
    const target = (index: number, fields: Partial<TargetStatus>): TargetStatus =>
      targetStatus({ target: `R${String(index).padStart(5, '0')}/main`, ...fields });
    const targets = Array.from({ length: 10_000 }, (_, index) =>
      target(index, index >= 9990 ? { state: 'failing', isStale: true } : {}),
    );
    const samples = await scrape(daemonReport({ targets }));
    const seen = named(samples, 'target_stale').map(({ labels }) => labels['repository']);
    expect(seen).toHaveLength(1000);
    expect(seen.slice(0, 11)).toEqual([
      ...Array.from({ length: 10 }, (_, index) => `R0999${index}`),
      'R00000',
    ]);
    expect(valueOf(samples, 'targets_left_out')).toBe(9000);
    expect(valueOf(samples, 'targets', { state: 'fresh' })).toBe(9990);
    expect(valueOf(samples, 'stale_targets')).toBe(10);
    expect(samples.length).toBeLessThan(8000);
  });

  it('forget deleted targets', async () => {
    const metrics = createMetrics();
    await scrape(eventfulReport(), metrics);
    const samples = await scrape(daemonReport(), metrics);
    expect(named(samples, 'target_stale')).toHaveLength(1);
  });

  it('do not mix during simultaneous scrapes', async () => {
    const metrics = createMetrics();
    const [many, one] = await Promise.all([
      scrape(eventfulReport(), metrics),
      scrape(daemonReport(), metrics),
    ]);
    expect(named(many, 'target_stale')).toHaveLength(5);
    expect(named(one, 'target_stale')).toHaveLength(1);
  });

  it('are the same as in the table of the manual', async () => {
    const readme = await readFile(join(import.meta.dirname, '../../../../src/manual/monitoring.md'), 'utf8');
    const metrics = createMetrics();
    const { text } = await metrics.render({ ...eventfulReport(), shard: { index: 2, count: 5 } });
    const types = [...parseMetrics(text).families.values()].flatMap(({ name, type }) =>
      name.startsWith(PREFIX) ? [`${name.slice(PREFIX.length)} ${type}`] : [],
    );
    const [, table = ''] = /^## Metrics\n([^]*?)^## /m.exec(readme) ?? [];
    const names = Array.from(table.matchAll(/^\| `([a-z_]+)` \|/gm), ([, name = '']) => name);
    expect(names.map((name) => `${name} ${typeByName(name)}`).sort()).toEqual(types.sort());
  });
});

/** The type of a metric as the manual says that its name shows it. */
function typeByName(name: string): string {
  if (name.endsWith('_total')) return 'counter';
  return name.endsWith('_duration_seconds') ? 'histogram' : 'gauge';
}
