import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';

import type { AtGate } from './gate.ts';
import { quietWakeUps } from './wake-ups.ts';

/** A program for Node. */
export interface NodeProgram {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** A run that takes longer is killed and counts as hung, in milliseconds. */
  readonly timeoutMs: number;
}

/** How a run ended. */
export interface RunEnded {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
  readonly isHung: boolean;
}

/** V8 compiles nothing a second time and collects garbage in one thread: a run ends before more would pay, and takes a tenth less of the processor so. */
const FLAGS = ['--liftoff-only', '--no-opt', '--no-maglev', '--single-threaded-gc'];

const GATED = join(import.meta.dirname, 'gated.ts');

/**
 * Runs a program to its end.
 * @param onGate called for each thread that comes to its gate, which goes on once this is done; without it there are no gates
 */
export async function runNode(
  { args, env, timeoutMs }: NodeProgram,
  onGate?: (thread: AtGate) => Promise<void>,
): Promise<RunEnded> {
  const loaded = onGate === undefined ? [] : ['--import', GATED];
  const child = spawn(process.execPath, [...FLAGS, ...loaded, ...args], {
    env: { ...env, ...quietWakeUps, UV_THREADPOOL_SIZE: '1' },
    stdio: ['ignore', 'ignore', 'pipe', onGate === undefined ? 'ignore' : 'pipe'],
  });
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const passing: Promise<void>[] = [];
  if (onGate !== undefined) {
    const channel = child.stdio[3] as Duplex;
    channel.on('error', () => {});
    createInterface({ input: channel }).on('line', (line) => {
      const passed = onGate(JSON.parse(line) as AtGate).finally(() => channel.write('.'));
      passed.catch(() => {});
      passing.push(passed);
    });
  }
  let isHung = false;
  const timer = setTimeout(() => {
    isHung = true;
    child.kill('SIGKILL');
  }, timeoutMs);
  await once(child, 'close');
  clearTimeout(timer);
  await Promise.all(passing);
  return { exitCode: child.exitCode, signal: child.signalCode, stderr, isHung };
}
