import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';

import type { AtGate } from './gate.ts';
import { quietWakeUps } from './wake-ups.ts';

/** A Node program. */
export interface NodeProgram {
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** A longer run is killed and counts as hung, in milliseconds. */
  readonly timeoutMs: number;
}

/** The end of a run. */
export type RunEnded = Awaited<ReturnType<typeof runNode>>;

/** V8 does not optimize, and collects garbage in one thread: runs are too short for more, and take a tenth less CPU. */
const FLAGS = ['--liftoff-only', '--no-opt', '--no-maglev', '--single-threaded-gc'];

const GATED = join(import.meta.dirname, 'gated.ts');

/**
 * Runs a program.
 * @param onGate called for each thread at its gate, which then continues; without it there are no gates
 */
export async function runNode(
  { args, env, timeoutMs }: NodeProgram,
  onGate?: (thread: AtGate) => Promise<void>,
) {
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
