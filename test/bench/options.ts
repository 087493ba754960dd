import { readFlags, UsageError } from '../support/command-line.ts';

/** What the command line asks for. */
export interface Options {
  /** Names of scenarios; empty for those that are run without being named. */
  readonly only: readonly string[];
  /** Timed runs of each contender, after one that is not counted. */
  readonly runs: number;
  /** Small data and few runs: for trying, not for figures. */
  readonly isQuick: boolean;
  /** Also what takes many minutes and gigabytes. */
  readonly isLarge: boolean;
  /** Where everything is made, or null for a folder below node_modules, on the file system of the sources. */
  readonly directory: string | null;
  /** A compiled program that is measured, or null for these sources. */
  readonly program: string | null;
  readonly jsonFile: string | null;
  readonly isMarkdown: boolean;
}

export const USAGE = `Usage: npm run bench -- [options]

  --only NAME,...   these scenarios alone
  --runs N          timed runs of each contender, after a warm-up (default 5)
  --quick           small data and 2 runs, to see that everything works
  --large           also the rows that take many minutes
  --dir FOLDER      where data sets and mirrors are made and removed again (default: below node_modules)
  --program FILE    measures this compiled main.js instead of these sources
  --json FILE       also writes every sample to a file
  --markdown        prints the tables as Markdown

What is missing of libarchive-tools jq rclone rsync unzip curl git (Debian packages) is said and left out.`;

const OPTIONS = {
  only: { type: 'string' },
  runs: { type: 'string' },
  quick: { type: 'boolean', default: false },
  large: { type: 'boolean', default: false },
  dir: { type: 'string' },
  program: { type: 'string' },
  json: { type: 'string' },
  markdown: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

const RUNS = 5;
const QUICK_RUNS = 2;

/**
 * Reads the command line; null when help is asked for.
 * @param known the names of the scenarios
 * @throws UsageError when it is wrong
 */
export function readOptions(args: readonly string[], known: readonly string[]): Options | null {
  const values = readFlags(args, OPTIONS);
  if (values.help) return null;
  const only = values.only?.split(',').filter((name) => name !== '') ?? [];
  const unknown = only.find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw new UsageError(`--only: there is no ${unknown}; there are ${known.join(', ')}`);
  if (values.runs !== undefined && !/^[1-9]\d?$/.test(values.runs)) {
    throw new UsageError('--runs: a whole number from 1 to 99 is needed');
  }
  return {
    only,
    runs: Number(values.runs ?? (values.quick ? QUICK_RUNS : RUNS)),
    isQuick: values.quick,
    isLarge: values.large,
    directory: values.dir ?? null,
    program: values.program ?? null,
    jsonFile: values.json ?? null,
    isMarkdown: values.markdown,
  };
}
