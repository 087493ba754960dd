import { writeFile } from 'node:fs/promises';

import { UsageError } from '../support/command-line.ts';
import { openBench } from './bench.ts';
import { describeMachine } from './machine.ts';
import { ContenderError } from './measure.ts';
import { type Options, readOptions, USAGE } from './options.ts';
import type { Scenario } from './scenario.ts';
import { broken } from './scenarios/broken.ts';
import { change } from './scenarios/change.ts';
import { firstMirror } from './scenarios/first-mirror.ts';
import { idle } from './scenarios/idle.ts';
import { publish } from './scenarios/publish.ts';
import { soak } from './scenarios/soak.ts';
import { start } from './scenarios/start.ts';
import { formatTable, type Table } from './table.ts';
import { allMissing, PACKAGES } from './tools.ts';

/**
 * Measures the compiled program beside what else would do the same, and prints a table for each scenario.
 * Exit codes: 0 measured, 1 a contender failed, 2 usage.
 */

const SCENARIOS: readonly Scenario[] = [firstMirror, change, idle, publish, broken, start, soak];

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function fail(text: string): void {
  say(`error: ${text}`);
  process.exitCode = 1;
}

function print(text: string): void {
  process.stdout.write(`${text}\n\n`);
}

async function bench(options: Options, args: readonly string[]): Promise<void> {
  const chosen = SCENARIOS.filter(({ name, isExtra }) =>
    options.only.length === 0 ? isExtra !== true : options.only.includes(name),
  );
  const opened = await openBench(options, say, fail);
  const stop = (exitCode: number) => () => void opened.close().finally(() => process.exit(exitCode));
  process.once('SIGINT', stop(130)).once('SIGTERM', stop(143));
  try {
    const machine = describeMachine(opened.program, args);
    print(`Measured on: ${machine}.`);
    const missing = allMissing();
    if (missing.length > 0) {
      print(`Left out for want of: ${missing.map((tool) => PACKAGES[tool]).join(', ')} (Debian packages).`);
    }
    const found: Table[] = [];
    for (const scenario of chosen) {
      say(`${scenario.name}: ${scenario.about}`);
      try {
        for await (const table of scenario.run(opened)) {
          print(formatTable(table, options.isMarkdown));
          found.push(table);
          if (options.jsonFile === null) continue;
          await writeFile(options.jsonFile, `${JSON.stringify({ machine, tables: found }, null, 2)}\n`);
        }
      } catch (error) {
        if (!(error instanceof ContenderError)) throw error;
        fail(`${scenario.name}: ${error.message}`);
      }
    }
  } finally {
    await opened.close();
  }
}

const args = process.argv.slice(2);
try {
  const options = readOptions(
    args,
    SCENARIOS.map(({ name }) => name),
  );
  if (options === null)
    print(`${USAGE}\n\nScenarios:\n${SCENARIOS.map(({ name, about }) => `  ${name}: ${about}`).join('\n')}`);
  else await bench(options, args);
} catch (error) {
  if (!(error instanceof UsageError || error instanceof ContenderError)) throw error;
  say(`error: ${error.message}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
