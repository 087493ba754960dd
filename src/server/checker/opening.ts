/**
 * The program that opens files, apart from the service: whatever a file does to it ends with it. A thread would not do: when a
 * thread runs out of memory in one great step, V8 ends the whole process.
 */
import { writeFileSync } from 'node:fs';
import { createContext, Script } from 'node:vm';

import { examine } from './examine.ts';
import { GAVE_UP_EXIT_CODE, isQuestion, type Question } from './question.ts';

try {
  // Where memory runs out, Linux takes this process rather than the service (proc(5)).
  writeFileSync('/proc/self/oom_score_adj', '1000');
} catch {
  // Elsewhere there is no such thing.
}

let asked: Question | undefined;
const context = createContext({
  examine: () => {
    if (asked !== undefined) process.send?.(examine(asked.kind, asked.file));
  },
});
const script = new Script('examine()');

process.on('message', (message) => {
  if (!isQuestion(message)) return;
  asked = message;
  try {
    // The service has a limit of its own, but it may be gone.
    script.runInContext(context, { timeout: message.limitMs });
  } catch {
    // The library may be anywhere in its work: begin anew.
    process.exit(GAVE_UP_EXIT_CODE);
  }
  asked = undefined;
});
process.on('disconnect', () => process.exit());
