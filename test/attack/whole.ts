import { existsSync, readFileSync, writeFileSync } from 'node:fs';

import { z } from 'zod';

/** How many points a scenario has that were all tried and held. */
const wholeScenario = z.strictObject({ points: z.int().min(1), reached: z.int().min(0) });

const wholeFile = z.strictObject({
  /** The version of the program and of what attacks it. */
  build: z.string(),
  /** By what the ids of their points begin with. */
  scenarios: z.record(z.string(), wholeScenario),
});

/** Scenarios of which every point was tried and held, by what the ids of their points begin with. */
export type WholeScenarios = ReadonlyMap<string, z.infer<typeof wholeScenario>>;

/**
 * Reads which scenarios need not be tried again, on whichever machine they were tried.
 * @returns none where the file is about another build, or is not there
 * @throws ZodError where it is not such a file
 */
export function readWhole(file: string, build: string): WholeScenarios {
  if (!existsSync(file)) return new Map();
  const found = wholeFile.parse(JSON.parse(readFileSync(file, 'utf8')));
  return new Map(found.build === build ? Object.entries(found.scenarios) : []);
}

/** Replaces what the file says. */
export function writeWhole(file: string, build: string, scenarios: WholeScenarios): void {
  const sorted = [...scenarios].sort(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify({ build, scenarios: Object.fromEntries(sorted) }, null, 2);
  writeFileSync(
    file,
    `${text.replaceAll(/\{\n\s+("points": \d+),\n\s+("reached": \d+)\n\s+\}/g, '{ $1, $2 }')}\n`,
  );
}
