import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { describe, expect, it } from 'vitest';

import { createMetrics } from '../../../../src/daemon/metrics/metrics.ts';
import type { DaemonReport } from '../../../../src/daemon/status/status-schema.ts';
import type { TargetStatus } from '../../../../src/app/target-status.ts';
import { HOUR_MS, NOW_MS, passFinished, pulledEvent } from '../../../support/builders.ts';
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

/** A metric without the prefix, its value, and labels that tell its samples apart. */
type Expected = readonly [string, number | undefined, Readonly<Record<string, string>>?];

function expectSamples(samples: readonly ScrapedSample[], expected: readonly Expected[]): void {
  const found = expected.map(([name, , labels = {}]) => [name, valueOf(samples, name, labels), labels]);
  expect(found).toEqual(expected.map(([name, value, labels = {}]) => [name, value, labels]));
}

const CHANGES = { method: 'exchange', added: 1, changed: 2, removed: 3 } as const;
const PULLED = pulledEvent({ ...CHANGES, downloadedBytes: 100, durationMs: 250 });
const FINISHED = {
  name: 'pass.finished',
  ...passFinished({ durationMs: 2000, targets: 1, pulled: 1, downloadedBytes: 100, changedFiles: 6 }),
} as const;

describe('the metrics', () => {
  it('are in the text format of Prometheus, with help, type and the usual metrics of the process', async () => {
    const metrics = createMetrics();
    const { contentType, text } = await metrics.render(eventfulReport());
    const { samples, families } = parseMetrics(text);
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(samples.map(({ name }) => name)).toContain('process_cpu_seconds_total');
    for (const [name, { help }] of families) expect(help, name).not.toBe('');
  });

  it('show the state of the daemon and of the mirror', async () => {
    const samples = await scrape(eventfulReport());
    const versions = { version: '1.2.3', node_version: process.versions.node };
    expect(named(samples, 'build_info')[0]?.labels).toEqual(versions);
    expectSamples(samples, [
      ['ready', 0],
      ['listed', 1],
      ['not_ready_targets', 1, { reason: 'stale' }],
      ['alive', 0],
      ['loop_silent_seconds', 90],
      ['slow_pulls', 1],
      ['oldest_slow_pull_start_timestamp_seconds', (NOW_MS - HOUR_MS) / 1000],
      ['next_pass_timestamp_seconds', NOW_MS / 1000 + 60],
      ['last_pass_end_timestamp_seconds', (NOW_MS - HOUR_MS) / 1000 + 2, { result: 'finished' }],
      ['last_pass_end_timestamp_seconds', NOW_MS / 1000 - 59.5, { result: 'failed' }],
      ['last_pass_end_timestamp_seconds', undefined, { result: 'abandoned' }],
      ['settings_ok', 0],
      ['settings_restart_needed', 1],
      ['leases', 1],
      ['disk_free_bytes', 500],
      ['upstream_repositories', 3],
      ['upstream_workbooks_processing', 1],
      ['upstream_workbooks_failed', 2],
      ['credential_state', 1, { credential: 'apiKey', state: 'refused' }],
      ['credential_state', 0, { credential: 'apiKey', state: 'accepted' }],
      ['targets', 1, { state: 'fresh' }],
      ['targets', 0, { state: 'absent' }],
      ['stale_targets', 2],
      ['held_deletions', 1],
      ['drifted_trees', 1],
      ['files', 15],
    ]);
  });

  it('show the own share and the count, if there are several', async () => {
    const samples = await scrape(daemonReport({ shard: { index: 2, count: 5 } }));
    expect(named(samples, 'shard_info')).toMatchObject([{ labels: { index: '2', count: '5' }, value: 1 }]);
    expect(valueOf(samples, 'shards')).toBe(5);
    expect(valueOf(await scrape(daemonReport()), 'shards')).toBeUndefined();
  });

  it('omit unknown values', async () => {
    const samples = await scrape(daemonReport({ disk: null, targets: [] }));
    const times = ['next_pass_timestamp_seconds', 'oldest_verified_timestamp_seconds'];
    for (const name of ['upstream_repositories', 'disk_free_bytes', ...times])
      expect(valueOf(samples, name), name).toBeUndefined();
  });

  it('show the state of each target', async () => {
    const samples = await scrape(eventfulReport());
    const failing = { repository: 'Failing', branch: 'main' };
    expectSamples(samples, [
      ['target_stale', 1, failing],
      ['target_failures', 7, failing],
      ['target_state', 1, failing],
      ['target_last_verified_timestamp_seconds', NOW_MS / 1000 - 60, failing],
      ['target_last_verified_timestamp_seconds', undefined, { repository: 'New' }],
    ]);
    const states = named(samples, 'target_state').map(({ labels }) => labels);
    expect(states).toContainEqual({ ...failing, state: 'failing' });
  });

  it('accept names of any kind', async () => {
    const names = [
      'line\nfeed/main',
      'both\\n"\\/main',
      'carriage\rreturn/main',
      '} 1\nup 0/main',
      'lone \ud800 surrogate/main',
      'nothing',
      '/main',
      '__proto__/constructor',
      '\u2028 \u0000 \u202e/main',
    ];
    const samples = await scrape(daemonReport({ targets: names.map((target) => targetStatus({ target })) }));
    const found = named(samples, 'target_stale').map(({ labels }) => labels);
    const seen = found.map(({ repository, branch }) => `${repository}/${branch}`);
    expect(seen).toEqual(names.map((name) => (name.includes('/') ? name : `/${name}`).toWellFormed()));
  });

  it('count each thing that happens, from 0 on', async () => {
    const metrics = createMetrics();
    expectSamples(await scrape(daemonReport(), metrics), [
      ['pulls_total', 0, { result: 'published' }],
      ['passes_total', 0, { trigger: 'schedule', result: 'finished' }],
    ]);
    const late = { code: 'service.timeout', message: 'late', hint: null } as const;
    for (const event of [
      PULLED,
      PULLED,
      { ...PULLED, method: 'none', added: 0, changed: 0, removed: 0 },
      { ...late, name: 'target.failed', target: 'A/main', attempts: 1, nextAttemptAtMs: 0 },
      { name: 'target.held', target: 'A/main', reason: 'processing', untilMs: null },
      { name: 'target.absent', target: 'A/main' },
      { name: 'target.retired', target: 'A/main', reason: 'gone' },
      FINISHED,
      { ...late, name: 'pass.failed', trigger: 'start', durationMs: 10 },
      { ...late, name: 'service.retry', code: 'service.busy', delayMs: 10, fromBytes: 0 },
      { ...late, name: 'hook.failed', hook: 'h', target: null },
      { ...late, name: 'notification.failed', to: 'webhook', attempts: 3 },
      { ...late, name: 'state.failed' },
    ] as const)
      metrics.sink(event);
    expectSamples(await scrape(daemonReport(), metrics), [
      ['pulls_total', 2, { result: 'published' }],
      ['pulls_total', 1, { result: 'unchanged' }],
      ['pulls_total', 1, { result: 'failed' }],
      ['pulls_total', 1, { result: 'held' }],
      ['pulls_total', 1, { result: 'absent' }],
      ['downloaded_bytes_total', 300],
      ['changed_files_total', 6, { kind: 'removed' }],
      ['pull_duration_seconds_count', 3],
      ['pull_duration_seconds_sum', 0.75],
      ['pull_duration_seconds_bucket', 3, { le: '0.3' }],
      ['passes_total', 1, { trigger: 'schedule', result: 'finished' }],
      ['passes_total', 1, { trigger: 'start', result: 'failed' }],
      ['pass_duration_seconds_sum', 2, { result: 'finished' }],
      ['requests_retried_total', 1, { code: 'service.busy' }],
      ['retired_targets_total', 1],
      ['hook_runs_total', 1, { result: 'failed' }],
      ['notification_failures_total', 1, { to: 'webhook' }],
      ['state_failures_total', 1],
      ['state_failing', 1],
    ]);
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
    const failing = Array.from({ length: 10 }, (_, index) => `R0999${index}`);
    expect(seen.slice(0, 11)).toEqual([...failing, 'R00000']);
    expect(valueOf(samples, 'targets_left_out')).toBe(9000);
    expect(valueOf(samples, 'targets', { state: 'fresh' })).toBe(9990);
    expect(valueOf(samples, 'stale_targets')).toBe(10);
    expect(samples.length).toBeLessThan(8000);
  });

  it('do not mix during simultaneous scrapes', async () => {
    const metrics = createMetrics();
    const reports = [eventfulReport(), daemonReport()];
    const [many = [], one = []] = await Promise.all(reports.map((report) => scrape(report, metrics)));
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
