import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import { onDisk } from '../../../lib/errors/disk-errors.ts';
import { LeasedError } from '../leases/lease.ts';
import type { RetentionPolicy } from '../../plan/retention.ts';
import type { PublishContext } from './commit.ts';
import { pruneHistory } from '../history/history.ts';
import { sweepLeases } from '../leases/lease-files.ts';

/** The rules for removing replaced trees and history. Times in milliseconds. */
export interface SweepOptions {
  readonly readerGraceMs: number;
  readonly retention: RetentionPolicy;
}

/**
 * Removes leases that are over, replaced trees that no reader needs any more, and trees that the history no longer keeps.
 * @param historyNowMs the time by which the history is judged, in milliseconds since the epoch
 * @returns what the history lost, as `<target>/<name>`
 */
export async function sweep(
  context: PublishContext,
  { readerGraceMs, retention }: SweepOptions,
  historyNowMs: number,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const { layout, now } = context;
  await context.checkDirectory();
  await onDisk('removing leases that are over', () => sweepLeases(layout, now()));
  await onDisk('removing replaced trees', () => sweepTrash(context, readerGraceMs, signal));
  const pruned = await pruneHistory(context, retention, historyNowMs, signal);
  return pruned.map(({ path, name }) => `${path}/${name}`);
}

/** Removes trees that are due, and trees that a clock which was ahead would keep for ever; stops once a lease holds. */
async function sweepTrash(
  { layout, gate, now }: PublishContext,
  readerGraceMs: number,
  signal?: AbortSignal,
): Promise<void> {
  const nowMs = now();
  const due = (await readdir(layout.trash)).filter((name) => {
    const untilMs = Number(name.slice(0, name.indexOf('-')));
    return untilMs <= nowMs || untilMs > nowMs + readerGraceMs || Number.isNaN(untilMs);
  });
  try {
    for (const name of due)
      await gate.pass(() => rm(join(layout.trash, name), { recursive: true, force: true }), signal);
  } catch (error) {
    if (!(error instanceof LeasedError)) throw error;
  }
}
