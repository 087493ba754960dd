import { readSync, writeSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

import koffi from 'koffi';

/**
 * What the servers have in common that run a program again and again without a new start of Node: orders come on one descriptor, what
 * became of them goes to another.
 */

/** What is to be run, a line of JSON. */
export interface Order {
  readonly run: number;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** The file that takes the standard error. */
  readonly stderrFile: string;
  readonly isGated: boolean;
  /** Whether it is run only so that its code is there in all later runs. */
  readonly isWarmUp: boolean;
}

/** A line of JSON: a run was started, or is over. */
export type Told =
  | { readonly kind: 'started'; readonly run: number; readonly pid: number }
  | {
      readonly kind: 'ended';
      readonly run: number;
      readonly exitCode: number | null;
      readonly signal: number;
      readonly openFiles: readonly string[];
    };

/** Beside the standard descriptors, which the program's modules may have opened. */
export const ORDERS_FD = 4;
/** Where lines of {@link Told} go. */
export const TOLD_FD = 5;

/** The C library of this process. */
export const libc = koffi.load(null);

/** dup2(2). */
export const dup2 = libc.func('int dup2(int from, int to)') as (from: number, to: number) => number;

/** _exit(2): ends without waiting for anything. */
export const exitNow = libc.func('void _exit(int code)') as (code: number) => void;

/** Waits for the next order; null where there will be none. */
export function readOrder(): Order | null {
  const bytes: number[] = [];
  const one = Buffer.alloc(1);
  for (;;) {
    if (readSync(ORDERS_FD, one) === 0) return null;
    if (one[0] === 10) return JSON.parse(Buffer.from(bytes).toString()) as Order;
    bytes.push(one[0] ?? 0);
  }
}

/** Says what became of an order. */
export function tell(told: Told): void {
  writeSync(TOLD_FD, `${JSON.stringify(told)}\n`);
}

/** Takes the program's environment, by which also libuv starts its threads. */
export function takeEnvironment({ env }: Order): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env, { UV_THREADPOOL_SIZE: '1' });
}

/** Runs the program in this process. */
export async function runHere({ run, args }: Order): Promise<void> {
  process.argv = [process.execPath, ...args];
  const program = pathToFileURL(args[0] ?? '');
  // Under another name it is run once more.
  program.search = `run=${run}`;
  await import(program.href);
}
