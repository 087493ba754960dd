import { type Amount, leftMs } from '../../lib/text/amount.ts';
import { Gauge } from '../../lib/time/gauge.ts';

/**
 * The phases of a pull: `comparing` the published tree with its manifest, `downloading`, `unpacking`, and `publishing`, which
 * includes flushing to disk and the command hooks.beforePublish.
 */
export const PULL_PHASES = ['comparing', 'downloading', 'unpacking', 'publishing'] as const;
export type PullPhase = (typeof PULL_PHASES)[number];

/** A pull under way. The amount is that of its phase; publishing has none. */
export interface PullProgress extends Amount {
  /** `<repository>/<branch>`. */
  readonly target: string;
  readonly phase: PullPhase;
  /** Milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** Bytes that came from the service so far, in all phases. */
  readonly downloadedBytes: number;
  /** Time that the phase still takes at this speed, in milliseconds; null where it is not known. */
  readonly leftMs: number | null;
}

/** How far a look at all published trees is, such as the one that a daemon begins with. */
export interface ScanProgress {
  readonly doneTargets: number;
  readonly targets: number;
}

/** Takes in how far one pull is. */
export class PullMeter {
  readonly #target: string;
  readonly #expectedBytes: number | null;
  readonly #startedAtMs = Date.now();
  #phase: PullPhase = 'comparing';
  #gauge = new Gauge(null);
  #downloadedBytes = 0;

  /** @param expectedBytes the size of the last archive; null where there was none */
  constructor(target: string, expectedBytes: number | null) {
    this.#target = target;
    this.#expectedBytes = expectedBytes;
  }

  downloads(): void {
    this.#begin('downloading', new Gauge(this.#expectedBytes, true));
  }

  /** One thing arrives. @param totalBytes as the answer says; null where it does not */
  arrived(doneBytes: number, totalBytes: number | null): void {
    this.#gauge.reach(doneBytes, totalBytes);
    this.#downloadedBytes = doneBytes;
  }

  /** One of several things has arrived, or a part of it. */
  arrivedMore(bytes: number): void {
    this.#gauge.add(bytes);
    this.#downloadedBytes += bytes;
  }

  /** A saved archive is unpacked; one that is unpacked while it arrives only downloads. */
  unpacked(bytes: number): void {
    if (this.#phase !== 'unpacking') this.#begin('unpacking', new Gauge(null));
    this.#gauge.add(bytes);
  }

  publishes(): void {
    this.#begin('publishing', new Gauge(null));
  }

  progress(): PullProgress {
    const amount = this.#gauge.amount();
    return {
      target: this.#target,
      phase: this.#phase,
      startedAtMs: this.#startedAtMs,
      downloadedBytes: this.#downloadedBytes,
      ...amount,
      leftMs: leftMs(amount),
    };
  }

  #begin(phase: PullPhase, gauge: Gauge): void {
    this.#phase = phase;
    this.#gauge = gauge;
  }
}

/** Knows how far long work is: the pulls under way, and a look at all trees. */
export class PullMonitor {
  readonly #meters = new Set<PullMeter>();
  #scan: ScanProgress | null = null;

  /** A pull begins. @param expectedBytes the size of its last archive; null where there was none */
  begin(target: string, expectedBytes: number | null): PullMeter {
    const meter = new PullMeter(target, expectedBytes);
    this.#meters.add(meter);
    return meter;
  }

  end(meter: PullMeter): void {
    this.#meters.delete(meter);
  }

  /** So many of all trees were compared with their manifests by now. */
  scanned(doneTargets: number, targets: number): void {
    this.#scan = doneTargets < targets ? { doneTargets, targets } : null;
  }

  /** How far the look at all trees is; null while there is none. */
  scan(): ScanProgress | null {
    return this.#scan;
  }

  /** The pulls under way, the one that has taken longest first. */
  pulls(): readonly PullProgress[] {
    return [...this.#meters].map((meter) => meter.progress());
  }
}
