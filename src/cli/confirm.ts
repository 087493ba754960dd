import { createInterface } from 'node:readline/promises';

import { MirrorError } from '../lib/errors/errors.ts';
import { say, type TerminalText } from '../lib/text/terminal-text.ts';
import { tell } from './output.ts';
import { standardError } from '../lib/process/streams.ts';

/**
 * Shows a person what is about to be done, and asks whether to go on.
 * @returns whether the answer was yes
 * @throws MirrorError `usage.invalid` where nobody can be asked
 */
export async function confirmed(what: TerminalText, question: TerminalText): Promise<boolean> {
  tell(what);
  if (!process.stdin.isTTY || !standardError.isTerminal()) {
    throw new MirrorError('usage.invalid', 'There is no terminal to ask on, and nothing was done.', {
      hint: 'Look at the list, and give --yes.',
    });
  }
  standardError.write(say`${question} [y/N] `);
  const input = createInterface({ input: process.stdin });
  try {
    // An input that ends is no yes.
    const [answer = ''] = await Promise.race([input.question('').then((line) => [line]), ended(input)]);
    return /^y(?:es)?$/i.test(answer.trim());
  } finally {
    input.close();
  }
}

function ended(input: {
  readonly once: (event: 'close', listener: () => void) => unknown;
}): Promise<string[]> {
  return new Promise((resolve) => input.once('close', () => resolve([])));
}
