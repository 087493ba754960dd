import { layoutOf } from '../../../../src/mirror/store/layout.ts';
import { describe, expect, it } from 'vitest';
import { createStatusService, isReady, roomOn } from '../../../../src/daemon/status/status-service.ts';
import type { Mirror } from '../../../../src/app/open-mirror.ts';
import { createProgressMonitor } from '../../../../src/daemon/supervision/progress-monitor.ts';
import { PullMonitor } from '../../../../src/mirror/pass/events.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { published, passFinished } from '../../../support/builders.ts';
import { mirrorSettings } from '../../../support/settings.ts';

const settings = mirrorSettings({
  SERVICE_BASE_URL: 'https://workbooks.example.com/api',
  SERVICE_API_KEY: 'key-of-the-test',
  DIRECTORY: '/nonexistent',
});

const NONE = { count: 0, first: [] };
const PASS: readonly MirrorEvent[] = [
  { name: 'pass.started', trigger: 'start' },
  { name: 'listing.read', isWhole: true, repositories: 1, workbooks: 1, processing: NONE, failed: NONE },
  { name: 'pass.finished', ...passFinished({ trigger: 'start', targets: 1 }) },
];

/** A status on a mirror with one fresh tree; its parts can be made to fail. */
function boardOn(parts: { disk: boolean; state: boolean }) {
  const readIf = <T>(isThere: boolean, value: T): Promise<T> =>
    isThere ? Promise.resolve(value) : Promise.reject(new Error('EIO at key-of-the-test'));
  const tree = published(undefined, { verifiedAtMs: Date.now(), publishedAtMs: Date.now() });
  const mirror = {
    monitor: new PullMonitor(),
    store: {
      canExchange: true,
      mode: 'auto',
      layout: layoutOf('/nowhere'),
      inventory: { read: () => readIf(parts.disk, { published: [tree] }) },
    },
    state: { records: () => readIf(parts.state, new Map()) },
  } as unknown as Mirror;
  const status = createStatusService(
    () => settings,
    mirror,
    createProgressMonitor(() => false),
  );
  for (const event of PASS) status.sink(event);
  return status;
}

describe('the status', () => {
  it('calls a mirror ready if it was read after the end of a pass, and then is not busy', async () => {
    const status = boardOn({ disk: true, state: true });
    expect((await status.report()).readiness.isReady).toBe(true);
    expect(status.isBusy()).toBe(false);
  });

  it('keeps warnings and errors as notices, and no other events', async () => {
    const status = boardOn({ disk: true, state: true });
    status.sink({ name: 'listing.problem', problem: 'odd' });
    const notice = { level: 'warn', event: 'listing.problem' };
    expect((await status.report()).notices).toEqual([expect.objectContaining(notice)]);
  });

  it('fails rather than use old data when the disk is unreadable, and recovers', async () => {
    const parts = { disk: true, state: true };
    const status = boardOn(parts);
    await status.report();
    parts.disk = false;
    for (const event of PASS) status.sink(event);
    await expect(status.report()).rejects.toThrow('EIO');
    await expect(status.report()).rejects.toThrow('EIO');
    parts.disk = true;
    for (const event of PASS) status.sink(event);
    expect((await status.report()).readiness.isReady).toBe(true);
  });

  it('shares a report between close requests, until something changes', async () => {
    const status = boardOn({ disk: true, state: true });
    const [first, second] = [await status.report(), await status.report()];
    expect(second).toBe(first);
    for (const event of PASS) status.sink(event);
    expect(await status.report()).not.toBe(first);
  });

  it('does not call a mirror ready while its records cannot be read, but a pass that just verified it', async () => {
    const parts = { disk: true, state: false };
    const status = boardOn(parts);
    const { stateProblem, ...readiness } = (await status.report()).readiness;
    expect(readiness).toMatchObject({ isReady: false, isListed: true });
    expect(await isReady(status)).toBe(true);
    expect(stateProblem).toContain('EIO at ');
    expect(stateProblem).not.toContain('key-of-the-test');
    parts.state = true;
    for (const event of PASS) status.sink(event);
    expect((await status.report()).readiness.isReady).toBe(true);
  });
});

it('shows disk space like df: the space reserved for root is neither free nor used', () => {
  const room = roomOn({ bsize: 4096, blocks: 1000, bfree: 550, bavail: 500 });
  expect(room).toEqual({ sizeBytes: 4096 * 950, freeBytes: 4096 * 500 });
});
