import type { Bench } from './bench.ts';
import { ContenderError, type Sample } from './measure.ts';
import { missingOf, PACKAGES, type Tool } from './tools.ts';

/** Something that is measured beside others. */
export interface Contender {
  readonly name: string;
  /** Programs without which it is left out. */
  readonly needs?: readonly Tool[];
  /** Does it once. */
  readonly run: () => Promise<Sample>;
  /** Holds what it did against what it should have done, and tidies up; not timed. */
  readonly after?: () => Promise<void>;
}

/** What was measured of a contender. */
export interface Measured {
  readonly contender: string;
  readonly samples: readonly Sample[];
  /** Why it was left out, or that it failed. */
  readonly missing?: string;
}

/** The name that our program has in every table. */
export const OURS = 'workbook-mirror';

/**
 * Runs contenders in turn, round after round, so that what disturbs the machine disturbs all. The first round warms up
 * and does not count.
 * @param beforeRound makes ready what a round starts from
 */
export async function compare(
  bench: Bench,
  contenders: readonly Contender[],
  beforeRound: (round: number) => Promise<void> = () => Promise.resolve(),
  runs = bench.options.runs,
): Promise<Measured[]> {
  const rows = contenders.map(({ name, needs = [] }) => rowOf(name, missingOf(needs)));
  for (let round = 0; round <= runs; round += 1) {
    await beforeRound(round);
    for (const [index, contender] of contenders.entries()) {
      const row = rows[index];
      if (row === undefined || row.missing !== undefined) continue;
      bench.say(`${round === 0 ? 'warm-up' : `run ${round} of ${runs}`}: ${contender.name}`);
      bench.settle();
      try {
        const { wallMs, cpuMs, peakBytes, more } = await contender.run();
        await contender.after?.();
        const sample = { wallMs, cpuMs, peakBytes, ...(more === undefined ? {} : { more }) };
        if (round > 0) row.samples.push(sample);
      } catch (error) {
        if (!(error instanceof ContenderError)) throw error;
        bench.fail(`${contender.name}: ${error.message}`);
        row.missing = 'failed';
        row.samples.length = 0;
      }
    }
  }
  return rows;
}

/** A row that is being filled. */
type Row = { -readonly [Field in keyof Measured]: Measured[Field] } & { readonly samples: Sample[] };

function rowOf(contender: string, missing: Tool | null): Row {
  if (missing === null) return { contender, samples: [] };
  return { contender, samples: [], missing: `needs ${missing} (Debian package ${PACKAGES[missing]})` };
}
