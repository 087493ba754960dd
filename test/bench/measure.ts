import { spawn } from 'node:child_process';
import { once } from 'node:events';

import { cpuMsOfEndedChildren, memoryOf, memoryOfTree } from './process-facts.ts';

/** What one run of a contender took. */
export interface Sample {
  readonly wallMs: number;
  /** User and system time of all its processes; null where it cannot be told apart from something else. */
  readonly cpuMs: number | null;
  /** The most memory that all its processes together had; null where it cannot be told. */
  readonly peakBytes: number | null;
  /** Other figures, by the name of their column. */
  readonly more?: Readonly<Record<string, number>>;
}

/** A program to be run. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Exit codes that are right; 0 alone if left out. */
  readonly exitCodes?: readonly number[];
}

/** A contender's program failed: what it was and what it said. */
export class ContenderError extends Error {}

const POLL_MS = 25;
/** Process groups that are being measured, by the id of their leader. */
const running = new Set<number>();

let isStopped = false;

/** Ends whatever is being measured, as the benchmark is about to exit; nothing is measured after that. */
export function endMeasured(): void {
  isStopped = true;
  for (const pid of running) process.kill(-pid, 'SIGKILL');
}

const TAIL_CHARACTERS = 2000;

/**
 * Runs a program to its end and says what it took.
 * @throws ContenderError when it fails
 */
export async function measure(command: Command): Promise<Sample & { readonly stdout: string }> {
  const cpuBeforeMs = cpuMsOfEndedChildren();
  const startedAtMs = performance.now();
  const child = spawn(command.program, command.args, {
    env: { ...process.env, ...command.environment },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  });
  if (child.pid !== undefined) running.add(child.pid);
  child.once('exit', () => running.delete(child.pid ?? 0));
  let peakBytes = 0;
  const { pid } = child;
  const timer = setInterval(() => {
    if (pid !== undefined) peakBytes = Math.max(peakBytes, memoryOfTree(pid), memoryOf(pid, 'VmHWM'));
  }, POLL_MS);
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-TAIL_CHARACTERS);
  });
  child.stdin.on('error', () => {}).end(command.input ?? '');
  try {
    const [exitCode] = (await once(child, 'close')) as [number | null];
    const wallMs = performance.now() - startedAtMs;
    // Whoever waits for it is to begin nothing new before the exit.
    if (isStopped) await new Promise(() => {});
    if (exitCode === null || !(command.exitCodes ?? [0]).includes(exitCode)) {
      throw new ContenderError(
        `${command.program} ${command.args.join(' ')} ended with ${exitCode ?? child.signalCode ?? '?'}:\n${stderr}`,
      );
    }
    return { wallMs, cpuMs: cpuMsOfEndedChildren() - cpuBeforeMs, peakBytes, stdout };
  } finally {
    clearInterval(timer);
  }
}

/** The middle one of some numbers, or the mean of the two in the middle; NaN of none. */
export function medianOf(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}
