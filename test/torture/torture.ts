import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { layoutOf } from '../../src/mirror/store/layout.ts';
import { readTargetList } from '../../src/mirror/store/target-list.ts';
import type { AtEnd } from '../support/temporary.ts';
import { Books } from './books.ts';
import { runCommand } from './command.ts';
import { FEW, Fleet, type Step } from './fleet.ts';
import { settingsIn, type Surroundings } from './instances.ts';
import { type FileSystem, openPlaces, type Place } from './places.ts';
import { differences, startReader } from './readers.ts';
import { WorkLog } from './work-log.ts';

/** How large a run is. */
export interface Size {
  readonly fileSystem: FileSystem;
  readonly repositories: number;
  /** The least time of changes and kills, in milliseconds; it ends with the round that is under way then. */
  readonly lastsMs: number;
  /** The mean time from one kill, or one step of a change of the count, to the next, in milliseconds. */
  readonly pauseMs: number;
}

/** What a run came to. */
export interface Outcome {
  readonly figures: Readonly<Record<string, number>>;
  /** What did not hold, a line each. */
  readonly violations: readonly string[];
}

/** Changes of the whole service a second, as a part of its repositories. */
const CHANGED_PART = 1 / 20;

/** A run of instances that share one directory. */
class Run {
  readonly size: Size;
  readonly places: readonly [Place, Place];
  readonly books: Books;
  readonly log = new WorkLog();
  readonly violations = new Set<string>();
  readonly fleet: Fleet;
  readonly say: (line: string) => void;
  changes = 0;

  constructor(size: Size, books: Books, places: readonly [Place, Place], say: (line: string) => void) {
    this.size = size;
    this.books = books;
    this.places = places;
    this.say = say;
    const surroundings: Surroundings = {
      books,
      log: this.log,
      violate: (what) => this.violate(what),
    };
    this.fleet = new Fleet(surroundings, places);
  }

  violate(what: string): void {
    if (this.violations.size < 100 && !this.violations.has(what)) this.say(`violated: ${what}`);
    this.violations.add(what);
  }

  /** Waits until all is done; says what is not where it takes too long. */
  async settle(when: string): Promise<void> {
    if (await this.fleet.settle(60_000 + this.size.repositories * 300)) return;
    this.violate(`not everything is done ${when}`);
    for (const instance of this.fleet.running) this.say(instance.said);
  }

  /** Changes repositories until it is stopped. */
  startChanges(): () => Promise<void> {
    const over = new AbortController();
    const everyMs = 100;
    const atOnce = Math.max(1, Math.round((this.size.repositories * CHANGED_PART * everyMs) / 1000));
    const changing = (async () => {
      while (!over.signal.aborted) {
        this.books.changeSome(atOnce);
        this.changes += atOnce;
        // They would fill the memory.
        this.books.service.takeRequests();
        await sleep(everyMs);
      }
    })();
    return () => {
      over.abort();
      return changing;
    };
  }

  /** One round of kills, with a change of the count there and back. */
  private round(): Step[] {
    const { fleet } = this;
    const kill: Step = () => fleet.kill();
    const among = (steps: readonly Step[]): Step[] =>
      steps.flatMap((step) => (Math.random() < 0.4 ? [step, kill] : [step]));
    return [
      kill,
      kill,
      () => fleet.killMount(0),
      () => fleet.cutCable(1),
      ...among(fleet.changeCount('many')),
      kill,
      kill,
      () => fleet.killMount(1),
      () => fleet.cutCable(0),
      kill,
      ...among(fleet.changeCount('few')),
    ];
  }

  async attack(): Promise<void> {
    const fromMs = Date.now();
    do {
      for (const step of this.round()) {
        await sleep(Math.random() * 2 * this.size.pauseMs);
        this.fleet.supervise();
        await step();
      }
      this.say(`${Math.round((Date.now() - fromMs) / 1000)} s: ${JSON.stringify(this.figures())}`);
    } while (Date.now() - fromMs < this.size.lastsMs);
  }

  /** Changes the count while nothing else changes: nobody may ask for contents. */
  async changeCountAlone(): Promise<void> {
    this.books.service.takeDownloads();
    for (const to of ['many', 'few'] as const) {
      for (const step of this.fleet.changeCount(to)) {
        await step();
        await sleep(Math.random() * this.size.pauseMs);
      }
      await this.settle(`after the count changed to ${to} alone`);
    }
    const downloads = this.books.service.takeDownloads();
    if (downloads.length > 0) this.violate(`downloaded by a change of the count alone: ${String(downloads)}`);
  }

  /** Holds against the service what is there at the end. */
  async judge(): Promise<void> {
    const { books, places, fleet } = this;
    for (const place of places)
      for (const difference of await differences(books, place)) this.violate(difference);
    for (const { place, shard } of fleet.running) await this.expectSuccess('status', place, shard);
    await fleet.stop();
    for (const place of places) await this.expectSuccess('verify', place, '');
    await this.expectSuccess('verify', places[0], `1/${FEW}`);
    for (const each of this.log.overlaps()) this.violate(each);
    const layout = layoutOf(places[0].directory);
    const { state, targets } = await readTargetList(layout);
    const listed = targets.map(({ path }) => path);
    const expected = books.names.map((name) => `${name}/main`).sort();
    if (JSON.stringify(listed) !== JSON.stringify(expected))
      this.violate(`inventory.json is ${state}, with ${listed.length} targets`);
    const shards = await readdir(layout.shards);
    for (const folder of [layout.staging, ...shards.map((name) => join(layout.shards, name, 'staging'))]) {
      const left = await readdir(folder).catch(() => []);
      if (left.length > 0) this.violate(`left in ${folder}: ${String(left)}`);
    }
  }

  figures(): Record<string, number> {
    const { fleet, log } = this;
    return {
      changes: this.changes,
      pulls: log.pulled,
      publishes: log.published,
      kills: fleet.kills,
      mountKills: fleet.mountKills,
      cableCuts: fleet.cableCuts,
      countChanges: fleet.countChanges,
      violations: this.violations.size,
    };
  }

  private async expectSuccess(command: 'status' | 'verify', place: Place, shard: string): Promise<void> {
    const { exitCode, output } = await runCommand(command, settingsIn(this.books, place, shard));
    if (exitCode !== 0)
      this.violate(`${command} ${shard} on ${place.name}: ${exitCode}: ${output.slice(-1500)}`);
  }
}

/**
 * Has instances share a directory while everything that they stand on fails and changes.
 * @param say takes a line of what is going on
 */
export async function torture(size: Size, atEnd: AtEnd, say: (line: string) => void): Promise<Outcome> {
  const places = await openPlaces(size.fileSystem, atEnd);
  const books = await Books.open(size.repositories);
  atEnd(() => books.service.close());
  const run = new Run(size, books, places, say);
  atEnd(() => run.fleet.killAll());
  const readers = places.map((place) => startReader(books, place, (what) => run.violate(what)));
  const stopReaders = async (): Promise<void> => {
    for (const reader of readers) await reader.stop();
  };
  atEnd(stopReaders);
  for (let index = 1; index <= FEW; index += 1) run.fleet.start(index, FEW);
  await run.settle('at first');
  say('all is mirrored');
  const stopChanges = run.startChanges();
  try {
    await run.attack();
  } finally {
    await stopChanges();
  }
  await run.settle('when the changes stopped');
  say('the changes stopped, and all is done');
  await run.changeCountAlone();
  await stopReaders();
  await run.judge();
  const [one = 0, other = 0] = readers.map((reader) => reader.reads());
  return {
    figures: { ...run.figures(), readsOnOne: one, readsOnOther: other },
    violations: [...run.violations],
  };
}
