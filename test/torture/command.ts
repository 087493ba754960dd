import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { cleanEnvironment, MAIN } from '../support/program.ts';

/** Runs a command of the program to its end. @returns what it printed, at last to standard error */
export async function runCommand(
  command: string,
  settings: Readonly<Record<string, string>>,
): Promise<{ readonly exitCode: number | null; readonly output: string }> {
  const child = spawn(process.execPath, [MAIN, command], {
    env: cleanEnvironment(settings),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  await once(child, 'close');
  return { exitCode: child.exitCode, output };
}
