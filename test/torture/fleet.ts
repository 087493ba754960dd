import { setTimeout as sleep } from 'node:timers/promises';

import { Instance, type Surroundings } from './instances.ts';
import type { Place } from './places.ts';

/** The counts between which it is changed. */
export const FEW = 3;
const MANY = 5;

/** Longer than any place is away, in milliseconds. */
const AT_MOST_AWAY_MS = 600_000;

/** For so long after a machine is back its instances may say that something fails, in milliseconds: calls that hung for long end then. */
const FINDING_OUT_MS = 30_000;

/** One thing that is done to the instances. */
export type Step = () => Promise<void>;

/** The instances that run, started anew by whatever ends them, as by their supervisors. */
export class Fleet {
  kills = 0;
  mountKills = 0;
  cableCuts = 0;
  countChanges = 0;
  private readonly members = new Map<number, Instance>();
  private readonly surroundings: Surroundings;
  private readonly places: readonly [Place, Place];

  constructor(surroundings: Surroundings, places: readonly [Place, Place]) {
    this.surroundings = surroundings;
    this.places = places;
  }

  get running(): readonly Instance[] {
    return [...this.members.values()];
  }

  start(index: number, count: number): void {
    const place = this.places[index % 2] ?? this.places[0];
    this.members.set(index, new Instance(this.surroundings, place, `${index}/${count}`));
  }

  /** Kills one, and starts it again, on either machine, at once or after a while. */
  async kill(): Promise<void> {
    const all = [...this.members];
    const [index, instance] = all[Math.floor(Math.random() * all.length)] ?? [];
    if (index === undefined || instance === undefined) return;
    await instance.kill();
    this.kills += 1;
    if (Math.random() < 0.5) await sleep(Math.random() * 2000);
    this.again(index, instance, Math.random() < 0.5 ? 0 : 1);
  }

  /** Kills a mount under its instances, lets them find out, and starts them again on the mount that follows. */
  async killMount(at: number): Promise<void> {
    const place = this.places[at % 2];
    if (place === undefined || place.mount === null) return;
    const there = this.lose(place);
    place.mount.kill();
    this.mountKills += 1;
    await sleep(Math.random() * 3000);
    await Promise.all(there.map(([, instance]) => instance.kill()));
    await place.mount.remount();
    found(place);
    for (const [index, instance] of there) this.again(index, instance, at);
  }

  /**
   * Cuts the cable of a machine, for so long that the server often gives its locks to others, and connects it again. Its instances go
   * on by themselves then, or end, and are started again.
   */
  async cutCable(at: number): Promise<void> {
    const place = this.places[at % 2];
    if (place === undefined || place.mount === null) return;
    const there = this.lose(place);
    place.mount.setCable('down');
    this.cableCuts += 1;
    await sleep(2000 + Math.random() * 12_000);
    place.mount.setCable('up');
    await place.mount.answers();
    found(place);
    for (const [, instance] of there) instance.excuse(FINDING_OUT_MS);
  }

  /** Expects a place to fail. @returns who works there, of whom nothing is held against them any more */
  private lose(place: Place): readonly [number, Instance][] {
    const there = [...this.members].filter(([, instance]) => instance.place === place);
    place.isAway = true;
    place.changes += 1;
    for (const [, instance] of there) instance.excuse(AT_MOST_AWAY_MS);
    return there;
  }

  /**
   * The steps of a change of the count: more instances, or fewer again. They are restarted one after the other, so that those with the new
   * count wait for those with the old one.
   */
  changeCount(to: 'many' | 'few'): Step[] {
    const few = Array.from({ length: FEW }, (_, at) => at + 1);
    const more = Array.from({ length: MANY - FEW }, (_, at) => FEW + at + 1);
    const count = to === 'many' ? MANY : FEW;
    const restarts = few.map((index) => async () => {
      await this.members.get(index)?.stop();
      this.start(index, count);
    });
    const starts = more.map((index) => () => Promise.resolve(this.start(index, count)));
    const stops = more.map((index) => async () => {
      await this.members.get(index)?.stop();
      this.members.delete(index);
    });
    this.countChanges += 1;
    return to === 'many' ? [...restarts, ...starts] : [...stops, ...restarts];
  }

  /** Starts again what ended by itself, which is held against it elsewhere. */
  supervise(): void {
    for (const [index, instance] of this.members) if (!instance.isRunning) this.again(index, instance, index);
  }

  /** Waits until each found everything done in a pass that began after this. @returns whether that came in time */
  async settle(patienceMs: number): Promise<boolean> {
    const fromMs = Date.now();
    while (Date.now() - fromMs < patienceMs) {
      this.supervise();
      if (this.running.every((instance) => instance.isIdleSince(fromMs))) return true;
      await sleep(100);
    }
    return false;
  }

  async stop(): Promise<void> {
    await Promise.all(this.running.map((instance) => instance.stop()));
  }

  async killAll(): Promise<void> {
    await Promise.all(this.running.map((instance) => instance.kill()));
  }

  private again(index: number, { shard }: Instance, at: number): void {
    const place = this.places[at % 2] ?? this.places[0];
    this.members.set(index, new Instance(this.surroundings, place, shard));
  }
}

/** Expects a place to work again. */
function found(place: Place): void {
  place.changes += 1;
  place.isAway = false;
}
