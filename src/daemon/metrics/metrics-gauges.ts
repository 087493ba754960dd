import { Gauge, type Registry } from 'prom-client';

import type { DaemonReport } from '../status/report.ts';

/** The prefix of the names of all metrics of this program, except those of the process itself. */
export const PREFIX = 'workbook_mirror_';

/** One value with its labels. */
export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Gauges of one name. */
export interface GaugeFamily {
  /** Without the prefix. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** None where there is nothing to say: what is not known has no value. */
  readonly samples: (report: DaemonReport) => readonly Sample[];
}

/** Registers gauges with the values that follow from a report. */
export function registerGauges(
  registry: Registry,
  families: readonly GaugeFamily[],
  report: DaemonReport,
): void {
  for (const { name, help, labels, samples } of families) {
    const values = samples(report);
    // A gauge without labels says 0 until it is told otherwise, even if nothing is known.
    if (values.length === 0 && labels.length === 0) continue;
    const gauge = new Gauge({ name: PREFIX + name, help, labelNames: labels, registers: [registry] });
    for (const sample of values) gauge.set({ ...sample.labels }, sample.value);
  }
}

/** A value without labels; none for null. */
export function sole(value: number | null): readonly Sample[] {
  return value === null ? [] : [{ labels: {}, value }];
}

/** A condition as Prometheus writes it. */
export function flag(holds: boolean): number {
  return holds ? 1 : 0;
}

/** A time or a duration in seconds, Prometheus' base unit, from milliseconds; null stays null. */
export function inSeconds<Time extends number | null>(timeMs: Time): Time extends null ? null : number;
export function inSeconds(timeMs: number | null): number | null {
  return timeMs === null ? null : timeMs / 1000;
}
