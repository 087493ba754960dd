import { describe, expect, it } from 'vitest';

import type { MirrorEvent } from '../../../../src/mirror/pass/events.ts';
import { type Listed, nextListed, NOT_LISTED } from '../../../../src/daemon/status/listed.ts';

const NONE = { count: 0, first: [] };
const STARTED: MirrorEvent = { name: 'pass.started', trigger: 'schedule' };
const FINISHED: MirrorEvent = {
  name: 'pass.finished',
  trigger: 'schedule',
  durationMs: 1,
  targets: 0,
  pulled: 0,
  changed: 0,
  failed: 0,
  held: 0,
  downloadedBytes: 0,
  changedFiles: 0,
  pulling: 0,
  waiting: 0,
  processing: 0,
};
const FAILED: MirrorEvent = {
  name: 'pass.failed',
  trigger: 'schedule',
  durationMs: 1,
  code: 'service.failed',
  message: 'It failed.',
  hint: null,
};

function listing(isWhole: boolean): MirrorEvent {
  return { name: 'listing.read', isWhole, repositories: 1, workbooks: 1, processing: NONE, failed: NONE };
}

function reloaded(...changed: string[]): MirrorEvent {
  return { name: 'settings.reloaded', changed };
}

function after(...events: readonly MirrorEvent[]): boolean {
  return events.reduce<Listed>(nextListed, NOT_LISTED).isListed;
}

const PASS = [STARTED, listing(true), FINISHED];

describe('which targets there are', () => {
  it.each<[string, boolean, readonly MirrorEvent[]]>([
    ['is not known at first', false, []],
    ['is not known while the first pass goes on', false, [STARTED, listing(true)]],
    ['is known when a pass with a whole list has ended', true, PASS],
    ['stays known when a later pass fails', true, [...PASS, STARTED, FAILED]],
    ['is not known by a list that lacks rows', false, [STARTED, listing(false), FINISHED]],
    ['is not known any more by such a list', false, [...PASS, STARTED, listing(false), FINISHED]],
    ['is not known any more under settings that select others', false, [...PASS, reloaded('targets')]],
    ['is not known any more at another service', false, [...PASS, reloaded('service.baseUrl')]],
    [
      'stays known under other settings',
      true,
      [...PASS, reloaded('schedule', 'log.level', 'service.retries')],
    ],
    [
      'is not known by the end of a pass that began before the settings changed',
      false,
      [...PASS, STARTED, listing(true), reloaded('repositories.include'), FINISHED],
    ],
    ['is known by the pass after that', true, [STARTED, reloaded('branches.exclude'), FINISHED, ...PASS]],
  ])('%s', (_what, isListed, events) => {
    expect(after(...events)).toBe(isListed);
  });
});
