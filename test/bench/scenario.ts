import type { Bench } from './bench.ts';
import type { Table } from './table.ts';

/** Something that is measured. */
export interface Scenario {
  readonly name: string;
  readonly about: string;
  /** Whether it runs only when it is named. */
  readonly isExtra?: boolean;
  /** Gives each table as soon as it is measured. */
  readonly run: (bench: Bench) => AsyncGenerator<Table>;
}
