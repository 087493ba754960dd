import { type ChildProcess, fork } from 'node:child_process';
import { constants, setPriority } from 'node:os';

import { type FileBytes, type Finding, isLastingFinding, type WorkbookKind } from './workbook-check.ts';
import type { CheckLimits } from './limits.ts';
import { GAVE_UP_EXIT_CODE, type Question } from './question.ts';

/** Opens one file at a time in a process of its own, which is replaced when a file hangs or ends it. */
export interface Opener {
  /**
   * Never rejects; takes little more than the limit at most. Gives null where the process could not be started, or something else
   * than the file ended it, several times.
   */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding | null>;
  /** Ends the process; of a file under way nothing is found. */
  readonly close: () => Promise<void>;
}

/** The program beside this file, as source or compiled. */
const PROGRAM = new URL(import.meta.url.endsWith('.ts') ? './opening.ts' : './opening.js', import.meta.url);
/** The process has the same limit, and is given so much longer to say so, in milliseconds. */
const SPARE_MS = 2000;

/** So often a file is tried in a fresh process when something else than the file may have ended the last one. */
const ATTEMPTS = 3;
/**
 * Signals that a program sends itself by what it does: V8 ends one that is out of memory by an abort or a trap (signal(7)). Others
 * come from outside: from a person, or from a system that is out of memory.
 */
const OWN_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set([
  'SIGABRT',
  'SIGTRAP',
  'SIGILL',
  'SIGSEGV',
  'SIGBUS',
  'SIGFPE',
]);

/** What came of asking a program: a finding, or that it ended for reasons that are not the file's. */
type Outcome = Finding | 'interrupted';

/** What the end of a program says of the file that it was asked about. */
function outcomeOfEnd(exitCode: number | null, signal: NodeJS.Signals | null): Outcome {
  const isOfFile = signal === null ? exitCode === GAVE_UP_EXIT_CODE : OWN_SIGNALS.has(signal);
  return isOfFile ? 'overtaxing' : 'interrupted';
}

/** Starts the program that opens files. @throws Error where the system refuses */
export function startProgram({ heapMegabytes }: CheckLimits): ChildProcess {
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

/** Asks a program; waits no longer than little more than the limit. */
function ask(child: ChildProcess, question: Question): Promise<Outcome> {
  return new Promise((resolve) => {
    const finish = (outcome: Outcome): void => {
      clearTimeout(timer);
      child.off('message', onMessage).off('exit', onEnd).off('error', onError);
      resolve(outcome);
    };
    const onEnd = (exitCode: number | null, signal: NodeJS.Signals | null): void =>
      finish(outcomeOfEnd(exitCode, signal));
    const onError = (): void => finish('interrupted');
    const onMessage = (answer: unknown): void => {
      finish(typeof answer === 'string' && isLastingFinding(answer) ? answer : 'interrupted');
    };
    const timer = setTimeout(() => finish('overtaxing'), question.limitMs + SPARE_MS);
    child.on('message', onMessage).on('exit', onEnd).on('error', onError);
    try {
      // What cannot be sent shows as the end of the program, or as its being too late.
      child.send(question, () => undefined);
    } catch {
      // One that was never started cannot even be asked.
      onError();
    }
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

/**
 * Makes an opener; its process is started with the first file.
 * @param start starts the program
 */
export function createOpener(limits: CheckLimits, start: typeof startProgram = startProgram): Opener {
  let child: ChildProcess | null = null;
  let idle: NodeJS.Timeout | undefined;
  const closed = new AbortController();

  async function end(): Promise<void> {
    clearTimeout(idle);
    const ended = child;
    child = null;
    if (ended !== null) await endOf(ended);
  }

  async function checkOnce(question: Question): Promise<Outcome> {
    try {
      if (child === null || child.exitCode !== null || child.signalCode !== null) child = start(limits);
    } catch {
      return 'interrupted';
    }
    const outcome = await ask(child, question);
    if (outcome === 'overtaxing' || outcome === 'interrupted') await end();
    return outcome;
  }

  return {
    async check(kind, file) {
      clearTimeout(idle);
      const question = { kind, file, limitMs: limits.limitMs };
      for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
        if (closed.signal.aborted) return null;
        const outcome = await checkOnce(question);
        if (outcome === 'interrupted') continue;
        if (child !== null) idle = setTimeout(() => void end(), limits.idleMs).unref();
        return outcome;
      }
      return null;
    },
    close: () => {
      closed.abort();
      return end();
    },
  };
}
