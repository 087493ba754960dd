import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { PullQueue } from '../../../../src/mirror/pass/queue.ts';
import type { PassReport } from '../../../../src/mirror/pass/pass.ts';
import { queuedSinceMs } from '../../../../src/mirror/plan/record.ts';
import type { MirrorEvent } from '../../../../src/app/events.ts';
import { targetKey } from '../../../../src/mirror/upstream/listing.ts';
import { noteForRepair } from '../../../../src/app/drift-notes.ts';
import type { FakeRepository, FakeService } from '../../../support/fake-service.ts';
import { endLease, takeLease } from '../../../support/leases.ts';
import {
  type MirrorHarness,
  type PassOptions,
  driftNotesOf,
  resultsOf,
  startPair,
  treeOf,
} from '../../../support/mirror-harness.ts';

/** A service that holds the contents of one repository until a test releases them, so that their pulls are slow. */
class SlowPair {
  readonly service: FakeService;
  readonly mirror: MirrorHarness;
  readonly queue: PullQueue;
  readonly slow: FakeRepository;
  readonly prompt: FakeRepository;
  /** Makes running pulls slow, in the order of the queue. */
  private timers: (() => void)[] = [];
  private readonly stop = new AbortController();
  private gate = Promise.withResolvers<void>();

  private constructor(service: FakeService, mirror: MirrorHarness) {
    this.service = service;
    this.mirror = mirror;
    this.queue = new PullQueue(
      true,
      (event) => mirror.events.push(event),
      (onDue) => {
        this.timers.push(onDue);
        return () => {
          this.timers = this.timers.filter((each) => each !== onDue);
        };
      },
    );
    this.slow = service.addRepository('Slow', { 'huge.xlsx': 'one' });
    this.prompt = service.addRepository('Prompt', { 'small.xlsx': 'one' });
    this.hold();
  }

  static async start(settings: Record<string, string> = {}): Promise<SlowPair> {
    const { service, mirror } = await startPair({}, { CONCURRENCY: '1', ...settings });
    const pair = new SlowPair(service, mirror);
    onTestFinished(() => pair.end());
    return pair;
  }

  /** From now on its contents wait in the middle. */
  hold(): void {
    this.gate = Promise.withResolvers<void>();
    // A test may end without waiting for it.
    this.gate.promise.catch(() => {});
    const { promise: released } = this.gate;
    this.service.fault = (path) => {
      const [, branch] = /\/contents\?branch=([^&]*)/.exec(path) ?? [];
      if (branch === undefined || !path.includes(this.slow.id)) return null;
      this.turnSlow(branch);
      return { kind: 'wait', after: 20, released };
    };
  }

  /** Makes the pull of a branch of the slow repository slow, unless it is. */
  turnSlow(branch: string): void {
    const running = [...this.queue.running().values()];
    const at = running.findIndex(
      ({ action: { target } }) => target.repositoryId === this.slow.id && target.branch === branch,
    );
    if (running[at]?.isSlow === false) this.timers[at]?.();
  }

  /** Releases waiting contents; later requests are answered immediately. */
  async release(): Promise<void> {
    this.service.fault = null;
    this.gate.resolve();
    await this.drained();
  }

  /** Cuts waiting connections, and refuses each further request for these contents. */
  async cut(): Promise<void> {
    this.service.faultContents({ kind: 'status', status: 500 }, this.slow);
    this.gate.reject(new Error('cut'));
    await this.drained();
  }

  async drained(): Promise<void> {
    await expect.poll(() => this.queue.running().size).toBe(0);
  }

  pass(options: PassOptions = {}): Promise<PassReport> {
    const { queue, stop } = this;
    return this.mirror.pass({ queue, trigger: 'schedule', signal: stop.signal, ...options });
  }

  /** Like the end of the daemon. */
  async abandon(): Promise<void> {
    this.stop.abort();
    await this.queue.drain();
  }

  async end(): Promise<void> {
    this.gate.resolve();
    await this.abandon();
  }

  async verifiedAtMs(repository: FakeRepository): Promise<number | null> {
    const records = await this.mirror.context.state.records();
    return records.get(targetKey({ repositoryId: repository.id, branch: 'main' }))?.verifiedAtMs ?? null;
  }

  stages(): Promise<string[]> {
    return readdir(join(this.mirror.directory, '.workbook-mirror', 'staging'));
  }
}

describe('a slow pull', () => {
  it('continues during later passes, and is recorded with its state at the start', async () => {
    const pair = await SlowPair.start();
    const first = await pair.pass();
    expect(resultsOf(first)['Slow/main']).toMatchObject({ action: 'pull', outcome: 'unfinished' });
    expect([first.summary, first.exitCode]).toMatchObject([
      { pulled: 1, pulling: 1, waiting: 0, held: 0 },
      0,
    ]);
    pair.service.write(pair.prompt, 'main', 'small.xlsx', 'two');
    const second = await pair.pass();
    expect(resultsOf(second)).toMatchObject({
      'Slow/main': { action: 'hold', reason: 'still-pulling', outcome: 'unfinished' },
      'Prompt/main': { reason: 'versions-changed', outcome: 'pulled' },
    });
    expect(await pair.mirror.tree('Prompt/main')).toEqual(treeOf({ 'small.xlsx': 'two' }));
    expect(await pair.verifiedAtMs(pair.slow)).toBeNull();
    const secondAtMs = (await pair.verifiedAtMs(pair.prompt)) ?? 0;
    await pair.release();
    expect(await pair.mirror.tree('Slow/main')).toEqual(treeOf({ 'huge.xlsx': 'one' }));
    expect((await pair.verifiedAtMs(pair.slow)) ?? 0).toBeLessThan(secondAtMs);
    const third = await pair.pass();
    expect(resultsOf(third)).toMatchObject({ 'Slow/main': { action: 'keep', outcome: 'kept' } });
    expect(pair.mirror.eventsOf('target.slow_ended')).toMatchObject([
      { target: 'Slow/main', result: 'pulled' },
    ]);
    await pair.mirror.expectExact();
  });

  it('is held by a lease taken during it, and published afterwards', async () => {
    const pair = await SlowPair.start();
    await pair.pass();
    const lease = await takeLease(pair.mirror);
    await pair.release();
    expect(pair.mirror.eventsOf('lease.waited')).toHaveLength(1);
    expect(pair.mirror.eventsOf('target.slow_ended')).toMatchObject([{ result: 'held' }]);
    expect(await pair.mirror.targets()).toEqual(['Prompt/main']);
    await endLease(pair.mirror, lease);
    await pair.pass();
    await pair.mirror.expectExact();
  });

  it('ends with the daemon, and leaves nothing behind', async () => {
    const pair = await SlowPair.start();
    await pair.pass();
    await pair.abandon();
    expect(await pair.stages()).toEqual([]);
    expect(pair.mirror.eventsOf('target.slow_ended')).toMatchObject([{ result: 'called off' }]);
    expect(pair.mirror.eventsOf('target.failed')).toEqual([]);
    await pair.release();
    await pair.pass({ signal: AbortSignal.timeout(250_000) });
    await pair.mirror.expectExact();
  });

  it('with a refused key fails: the next pass finds out whether the lists refuse it as well', async () => {
    const pair = await SlowPair.start();
    for (const branch of ['b', 'c']) pair.service.write(pair.slow, branch, 'a.xlsx', branch);
    await pair.pass();
    pair.service.apiKey = 'another one';
    await pair.cut();
    const results = pair.mirror.eventsOf('target.slow_ended').map(({ result }) => result);
    expect(results).toEqual(['failed', 'failed', 'failed']);
    expect(pair.mirror.eventsOf('credentials.refused')).toEqual([]);
    await expect(pair.pass()).rejects.toMatchObject({ code: 'credentials.refused' });
  });

  it('keeps its repair due, for the next process too, until it is done', async () => {
    const pair = await SlowPair.start();
    await pair.release();
    await pair.pass();
    const noted = async (): Promise<string[]> => [...(await driftNotesOf(pair.mirror)).keys()];
    await noteForRepair(pair.mirror.context, 'Slow/main', [], Date.now());
    pair.hold();
    await pair.pass();
    expect(await noted()).toEqual(['Slow/main']);
    await pair.release();
    await pair.pass();
    expect(await noted()).toEqual([]);
  });

  it('that ends during planning is still reported as running', async () => {
    const pair = await SlowPair.start();
    await pair.pass();
    const { store } = pair.mirror.context;
    const read = async (): ReturnType<typeof store.inventory.read> => {
      const reading = await store.inventory.read();
      await pair.release();
      return reading;
    };
    const inventory = { ...store.inventory, read };
    const { summary } = await pair.pass({ parts: { store: { ...store, inventory } } });
    expect(summary).toMatchObject({ pulling: 1, waiting: 0 });
  });

  it('is reported when its record is saved, for any end', async () => {
    const pair = await SlowPair.start();
    const { state } = pair.mirror.context;
    const log: string[] = [];
    const parts = {
      emit: (event: MirrorEvent): void => {
        if (event.name === 'target.pulled' || event.name === 'target.failed')
          log.push(`${event.name} ${event.target}`);
      },
    };
    const save = state.saveRecords.bind(state);
    vi.spyOn(state, 'saveRecords').mockImplementation(async (records) => {
      const isSaved = await save(records);
      const told = records.filter((record) => queuedSinceMs(record) === null);
      log.push(...told.map(({ repository }) => `saved ${repository}`));
      return isSaved;
    });
    await pair.pass({ parts });
    await pair.cut();
    pair.hold();
    await pair.pass({ parts, trigger: 'signal' });
    await pair.release();
    expect(log.filter((each) => !each.endsWith('Prompt'))).toEqual([
      'target.pulled Prompt/main',
      'saved Slow',
      'target.failed Slow/main',
      'saved Slow',
      'target.pulled Slow/main',
    ]);
    expect(log.slice(0, 2)).toEqual(['saved Prompt', 'target.pulled Prompt/main']);
  });
});

describe('a slow pull whose target', () => {
  it('leaves the service is cancelled when it is retired', async () => {
    const pair = await SlowPair.start({ RETIRE_AFTER_PASSES: '1' });
    await pair.release();
    await pair.pass();
    pair.service.write(pair.slow, 'main', 'huge.xlsx', 'two');
    pair.hold();
    await pair.pass();
    pair.service.removeRepository(pair.slow);
    expect(resultsOf(await pair.pass())).toMatchObject({
      'Slow/main': { action: 'retire', outcome: 'retired' },
    });
    expect(pair.mirror.eventsOf('target.slow_ended').at(-1)).toMatchObject({ result: 'called off' });
    await pair.mirror.expectExact();
  });

  it('replaces a deleted one leaves that one there until it is done', async () => {
    const pair = await SlowPair.start({ RETIRE_AFTER_PASSES: '1' });
    const old = pair.service.addRepository('Place', { 'old.xlsx': 'old' });
    pair.service.removeRepository(pair.slow);
    await pair.pass();
    pair.service.removeRepository(old);
    pair.service.repositories.push(pair.slow);
    pair.service.renameRepository(pair.slow, 'Place');
    for (let times = 0; times < 3; times += 1) {
      await pair.pass();
      expect(await pair.mirror.tree('Place/main')).toEqual(treeOf({ 'old.xlsx': 'old' }));
    }
    await pair.release();
    expect(await pair.mirror.tree('Place/main')).toEqual(treeOf({ 'huge.xlsx': 'one' }));
    await pair.pass();
    await pair.mirror.expectExact();
  });

  it('loses its branch is left to the next pass, which asks again and retires it', async () => {
    const pair = await SlowPair.start({ RETIRE_AFTER_PASSES: '1' });
    pair.service.write(pair.slow, 'dev', 'a.xlsx', 'dev');
    await pair.release();
    await pair.pass();
    pair.slow.branches.delete('dev');
    pair.service.knobs.rows = 'latest-only';
    const answers = Promise.withResolvers<void>();
    pair.service.fault = (path) => {
      if (!path.includes('branch=dev')) return null;
      pair.turnSlow('dev');
      return { kind: 'delay', released: answers.promise };
    };
    await pair.pass({ aheadMs: 48 * 3_600_000 });
    pair.service.fault = null;
    answers.resolve();
    await pair.drained();
    expect(await pair.mirror.targets()).toContain('Slow/dev');
    await pair.pass();
    expect(await pair.mirror.targets()).toEqual(['Prompt/main', 'Slow/main']);
    expect(pair.mirror.eventsOf('target.retired')).toMatchObject([
      { target: 'Slow/dev', reason: 'branch-gone' },
    ]);
  });
});
