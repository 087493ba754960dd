import { setTimeout as sleep } from 'node:timers/promises';

import { Instance, type Surroundings } from './instances.ts';
import type { Place } from './places.ts';

/** The counts between which it is changed. */
export const FEW = 3;
const MANY = 5;

/** One thing that is done to the instances. */
export type Step = () => Promise<void>;

/** The instances that run, started anew by whatever ends them, as by their supervisors. */
export class Fleet {
  kills = 0;
  mountKills = 0;
  rolls = 0;
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
    const there = [...this.members].filter(([, instance]) => instance.place === place);
    place.isAway = true;
    place.changes += 1;
    for (const [, instance] of there) instance.excuse();
    place.mount.kill();
    this.mountKills += 1;
    await sleep(Math.random() * 3000);
    await Promise.all(there.map(([, instance]) => instance.kill()));
    await place.mount.remount();
    place.changes += 1;
    place.isAway = false;
    for (const [index, instance] of there) this.again(index, instance, at);
  }

  /** The steps of a rolling change: more instances, or fewer again. */
  roll(to: 'many' | 'few'): Step[] {
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
    this.rolls += 1;
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
