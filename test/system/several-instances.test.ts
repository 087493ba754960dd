import { describe, expect, it, onTestFinished } from 'vitest';

import { hasGluster } from '../support/gluster.ts';
import { say } from '../support/sweep.ts';
import { stateIn } from '../torture/books.ts';
import type { FileSystem } from '../torture/places.ts';
import { torture } from '../torture/torture.ts';
import { WorkLog } from '../torture/work-log.ts';

const TITLE = hasGluster
  ? 'on two machines with a GlusterFS volume'
  : 'on two machines with a GlusterFS volume (skipped: needs root, namespaces, FUSE and glusterfs-server)';

/** A small run of test/torture. */
async function sample(fileSystem: FileSystem, repositories: number): Promise<void> {
  const size = { fileSystem, repositories, lastsMs: 0, pauseMs: 300 };
  const { figures, violations } = await torture(size, onTestFinished, say);
  say(`several instances, ${fileSystem}: ${JSON.stringify(figures)}`);
  expect(violations).toEqual([]);
  for (const did of ['publishes', 'kills', 'readsOnOne', 'readsOnOther'])
    expect(figures[did]).toBeGreaterThan(0);
}

describe('several instances that are killed, and counted anew, while all changes', () => {
  it('mirror all of it exactly, each target once, in one folder', () => sample('plain', 40));

  it.skipIf(!hasGluster)(TITLE, () => sample('gluster', 40));
});

describe('what holds them to it', () => {
  it('finds a target that two work on at once, and no other', () => {
    const line = (event: string, second: number, durationMs = 0) => ({
      time: `2026-11-22T12:00:0${second}.000Z`,
      level: 'info',
      event,
      target: 'Sales/main',
      durationMs,
    });
    const log = new WorkLog();
    log.take(1, line('target.started', 0));
    // Written a while after the work was done.
    log.take(1, line('target.pulled', 3, 2000));
    log.take(2, line('target.started', 2));
    log.take(2, line('target.pulled', 5, 3000));
    expect(log.overlaps()).toEqual([]);
    log.take(3, line('target.started', 4));
    expect(log.overlaps()).toHaveLength(1);
  });

  it('finds a tree of two states, and one that lacks a file', () => {
    const names = ['d0/f0.xlsx', 'd1/f1.xlsx', 'd0/f2.txt', 'd1/f3.txt', 'd0/f4.txt', 'd1/f5.txt'];
    const tree = new Map(names.map((path) => [path, `7 of Sales in ${path}`]));
    tree.set('only/in-7.xlsx', '7 of Sales');
    expect(stateIn('Sales', tree)).toBe(7);
    expect(stateIn('Sales', new Map([...tree, ['d1/f5.txt', '8 of Sales in d1/f5.txt']]))).toMatch(/mixture/);
    expect(stateIn('Sales', new Map([...tree].slice(1)))).toMatch(/mixture/);
    expect(stateIn('Sales', new Map())).toMatch(/no state/);
  });
});
