import { readFlags, UsageError } from '../support/command-line.ts';

/** What the command line asks for. */
export interface Options {
  /** What the ids of the scenarios begin with that are tried; empty for all. */
  readonly only: readonly string[];
  /** What the names of the points contain that are tried. */
  readonly with: string;
  /** How long points are tried: infinite where nothing ends it. */
  readonly lastsMs: number;
  /** The id of one point, which alone is tried. */
  readonly point: string | null;
  /** Also tries what was violated before. */
  readonly triesAgain: boolean;
  /** Tries nothing, and tells the figures. */
  readonly figuresOnly: boolean;
  /** Tries nothing, and keeps the scenarios that were tried whole. */
  readonly keepsWhole: boolean;
  /** Where it is kept what was tried, or null for the usual folder. */
  readonly journal: string | null;
}

export const USAGE = `Usage: npm run test:attack -- [options]

  --minutes N       begins no point after so many minutes (default: goes on until all are tried)
  --only BEGIN      scenarios alone that begin so, as errors/mixed/; may be given several times
  --with TEXT       points alone whose names contain this, as thread or EIO
  --again           also tries points again that were violated when they were last tried
  --point ID        tries one point, and says all that is found
  --figures         tries nothing: what was tried of this build, and what is left
  --keep            tries nothing: scenarios that were tried whole go into test/attack/whole.json
  --journal FOLDER  where it is kept what was tried (default: .tmp/attack/BUILD)

Exit codes: 0 nothing is violated, 1 something is, 2 usage. test/attack/README.md says what the points are.`;

const FLAGS = {
  minutes: { type: 'string' },
  only: { type: 'string', multiple: true },
  with: { type: 'string', default: '' },
  point: { type: 'string' },
  again: { type: 'boolean', default: false },
  figures: { type: 'boolean', default: false },
  journal: { type: 'string' },
  keep: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

/**
 * Reads the command line; null when help is asked for.
 * @param scenarios what the ids of the points of each begin with
 * @throws UsageError when it is wrong, or names what does not exist
 */
export function readOptions(args: readonly string[], scenarios: readonly string[]): Options | null {
  const values = readFlags(args, FLAGS);
  if (values.help) return null;
  const only = values.only ?? [];
  const unknown = only.find((begin) => !scenarios.some((each) => each.startsWith(begin)));
  if (unknown !== undefined)
    throw new UsageError(`--only: no scenario begins with ${unknown}; they are ${alikeIn(scenarios)}`);
  const point = values.point ?? null;
  if (point !== null && !scenarios.some((begin) => point.startsWith(begin)))
    throw new UsageError(`--point: there is no ${point}; the id of a point begins with its scenario`);
  return {
    only,
    with: values.with,
    lastsMs: lastsMsOf(values.minutes),
    point,
    triesAgain: values.again,
    figuresOnly: values.figures,
    keepsWhole: values.keep,
    journal: values.journal ?? null,
  };
}

function lastsMsOf(minutes: string | undefined): number {
  if (minutes === undefined) return Infinity;
  if (!/^\d{1,5}(\.\d+)?$/.test(minutes)) throw new UsageError('--minutes: a number of minutes is needed');
  return Number(minutes) * 60_000;
}

/** Scenarios without their modes, of which there are few enough to be read. */
function alikeIn(scenarios: readonly string[]): string {
  const names = scenarios.map((begin) => begin.replace(/[^/]+\/$/, ''));
  return [...new Set(names)].join(' ');
}
