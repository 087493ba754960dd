import { expect, vi } from 'vitest';

import { runProgram } from '../../src/cli/frame/program.ts';
import { type Variables, variablesOf } from './program.ts';

/** The output of a command, and its exit code. */
export type Written = Awaited<ReturnType<typeof runWith>>;

/**
 * Runs a command in this process, and captures its output.
 * @param settings variables without the prefix: `DIRECTORY`
 */
export function runHere(args: readonly string[], settings: Variables = {}) {
  return runWith(args, variablesOf(settings));
}

/** As `runHere`, with variables by their whole names. */
export async function runWith(args: readonly string[], variables: Variables) {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      written[name] += String(text);
      return true;
    }),
  );
  for (const [name, value] of Object.entries({ NO_COLOR: '1', ...variables })) vi.stubEnv(name, value);
  try {
    const { exitCode } = await runProgram(['node', 'workbook-mirror', ...args]);
    return { exitCode, ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}

/** An output that has a text, or matches a pattern, as a part of an expected object. */
export function saying(text: string | RegExp): string {
  return (typeof text === 'string' ? expect.stringContaining(text) : expect.stringMatching(text)) as string;
}
