import { type ChildProcess, fork } from 'node:child_process';
import { constants, setPriority } from 'node:os';

import {
  type FileBytes,
  type Finding,
  isLastingFinding,
  type WorkbookKind,
} from '../model/workbook-check.ts';
import type { CheckLimits } from './limits.ts';
import type { Question } from './question.ts';

/** Opens one file at a time in a process of its own, which is replaced when a file hangs or ends it. */
export interface Opener {
  /** Never rejects; takes little more than the limit at most. */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding>;
  /** Ends the process; a file under way is `overtaxing`. */
  readonly close: () => Promise<void>;
}

/** The program beside this file, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './opening.ts' : './opening.js', import.meta.url);
/** The process has the same limit, and is given so much longer to say so, in milliseconds. */
const SPARE_MS = 2000;

function startProgram({ heapMegabytes }: CheckLimits): ChildProcess {
  const child = fork(PROGRAM, {
    // Nothing of the service's own: neither its settings nor its credentials.
    env: {},
    execArgv: [`--max-old-space-size=${heapMegabytes}`],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  // A program that cannot be started or asked ends, and that is what counts.
  child.on('error', () => child.kill('SIGKILL'));
  try {
    // Answers come first.
    if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended already, which shows below.
  }
  return child;
}

/** Asks a program. @returns null when it ends without an answer, or is too late */
function ask(child: ChildProcess, question: Question): Promise<Finding | null> {
  return new Promise((resolve) => {
    const finish = (finding: Finding | null): void => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onEnd).off('error', onEnd);
      resolve(finding);
    };
    const onEnd = (): void => finish(null);
    const onMessage = (answer: unknown): void => {
      finish(typeof answer === 'string' && isLastingFinding(answer) ? answer : null);
    };
    const timer = setTimeout(onEnd, question.limitMs + SPARE_MS);
    child.on('message', onMessage).on('exit', onEnd).on('error', onEnd);
    child.send(question, (error) => {
      if (error !== null) finish(null);
    });
  });
}

function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined)
    return Promise.resolve();
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill('SIGKILL');
  });
}

/** Makes an opener; its process is started with the first file. */
export function createOpener(limits: CheckLimits): Opener {
  let child: ChildProcess | null = null;
  let idle: NodeJS.Timeout | undefined;

  async function end(): Promise<void> {
    clearTimeout(idle);
    const ended = child;
    child = null;
    if (ended !== null) await endOf(ended);
  }

  return {
    async check(kind, file) {
      clearTimeout(idle);
      if (child === null || child.exitCode !== null || child.signalCode !== null)
        child = startProgram(limits);
      const finding = await ask(child, { kind, file, limitMs: limits.limitMs });
      if (finding === null) {
        await end();
        return 'overtaxing';
      }
      idle = setTimeout(() => void end(), limits.idleMs).unref();
      return finding;
    },
    close: end,
  };
}
