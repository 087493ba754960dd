import { spawn } from 'node:child_process';

import { MAIN } from './built.ts';
import { cleanEnvironment, type Variables } from './program.ts';

/**
 * Runs the program on a terminal, and answers its questions.
 * @param args in shell syntax
 * @param answers each with the end of its question
 * @param end a shell command to run on the same terminal afterwards
 * @returns the exit code of the program, and all output of the terminal
 */
export function onTerminal(
  args: string,
  answers: readonly (readonly [question: string, keys: string])[],
  settings: Variables,
  end = ':',
): Promise<{ code: number | null; text: string }> {
  const command = `${process.execPath} ${MAIN} ${args}; code=$?; ${end}; exit $code`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...cleanEnvironment(settings), SHELL: '/bin/sh', TERM: 'xterm' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const open = [...answers];
  let text = '';
  let seen = 0;
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
    for (let [next] = open; next !== undefined && text.includes(next[0], seen); [next] = open) {
      seen = text.indexOf(next[0], seen) + next[0].length;
      child.stdin.write(next[1]);
      open.shift();
    }
  });
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, text })));
}
