import { createInterface } from 'node:readline/promises';

import { MirrorError } from '../../lib/errors/errors.ts';
import { standardError } from '../../lib/process/streams.ts';
import { say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { type Lines, loudness, tell, textOf } from './output.ts';

/** A person who answers questions. */
export type Terminal = ReturnType<typeof openTerminal>;

/**
 * Opens the terminal for questions. It shows typed characters only while an open question waits: a secret that is pasted too early must not
 * be visible. Ctrl-C ends the process by its signal.
 * @param hint the remedy without a terminal
 * @throws MirrorError `usage.invalid` without a terminal
 */
export function openTerminal(hint: string) {
  if (!process.stdin.isTTY || !standardError.isTerminal())
    throw new MirrorError('usage.invalid', 'There is no terminal to ask on, so nothing was done.', { hint });
  // Without an output it shows nothing, and reads keys itself.
  const input = createInterface({ input: process.stdin, terminal: true, historySize: 0 });
  const ended = new AbortController();
  input.once('close', () => ended.abort());
  input.once('SIGINT', () => {
    input.close();
    standardError.write(say`\n`);
    process.kill(process.pid, 'SIGINT');
  });
  return {
    /** Asks for a line. @returns null if the input ends */
    ask: async (question: TerminalText, isHidden = false): Promise<string | null> => {
      // Keys that came before the question belong to no answer.
      input.write(null, { ctrl: true, name: 'u' });
      process.stdin.setRawMode(isHidden);
      standardError.write(question);
      const answer = await input.question('', { signal: ended.signal }).catch(() => null);
      if (isHidden || answer === null) standardError.write(say`\n`);
      process.stdin.setRawMode(answer !== null);
      return answer?.trim() ?? null;
    },
    close: () => input.close(),
  };
}

/**
 * Shows the planned deletions and, without `--yes`, asks for confirmation.
 * @returns whether the answer was yes
 * @throws MirrorError `usage.invalid` without a terminal
 */
export async function confirmed(what: Lines, question: string, isConfirmed: boolean): Promise<boolean> {
  if (!isConfirmed || loudness() !== 'quiet') tell(textOf(what));
  if (isConfirmed) return true;
  const terminal = openTerminal('Look at the list, and give --yes.');
  try {
    for (;;) {
      // The end of the input counts as no.
      const answer = (await terminal.ask(say`${question} [y/N] `)) ?? '';
      if (/^(?:y|yes|n|no|)$/i.test(answer)) return /^y/i.test(answer);
      tell(say`Answer y or n.`);
    }
  } finally {
    terminal.close();
  }
}
