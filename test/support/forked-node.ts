import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';

import type { Order, Told } from './fork-server.ts';
import {
  type Launcher,
  type NodeProgram,
  onLines,
  type OnGate,
  openGates,
  type RunEnded,
} from './launcher.ts';

const SERVER = join(import.meta.dirname, 'fork-server.ts');

interface Running {
  readonly run: number;
  readonly onGate: OnGate | null;
  readonly onTold: (told: Told) => void;
}

/** Runs a program in forks of one process. */
export interface ForkedNode extends Launcher {
  /** Runs the program in that process itself, so that later runs find its code compiled. */
  readonly warmUp: (program: NodeProgram) => Promise<void>;
}

/**
 * Runs programs in forks of a process that has loaded them already where it was warmed up, one at a time.
 * @param folder where a run's output goes meanwhile
 */
export function forkedNode(folder: string): ForkedNode {
  const server = spawn(process.execPath, ['--single-threaded', '--no-flush-bytecode', SERVER], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe', 'pipe'],
  });
  const [gateChannel, orders, told] = server.stdio.slice(3) as Duplex[];
  if (gateChannel === undefined || orders === undefined || told === undefined)
    throw new Error('the fork server has no channels');
  let running: Running | null = null;
  let runs = 0;
  const gates = openGates(gateChannel, ({ run }) => (run === running?.run ? running.onGate : null));
  onLines(told, (line) => running?.onTold(JSON.parse(line) as Told));
  const closed = once(server, 'close');
  const ended = closed.then(([code, signal]) =>
    Promise.reject(new Error(`the fork server ended: ${String(code ?? signal)}`)),
  );
  ended.catch(() => {});

  const runOne = async (
    program: NodeProgram,
    onGate: OnGate | null,
    isWarmUp: boolean,
  ): Promise<RunEnded> => {
    const run = (runs += 1);
    const stderrFile = join(folder, `stderr-${server.pid}`);
    await writeFile(stderrFile, '');
    const over = Promise.withResolvers<Extract<Told, { kind: 'ended' }>>();
    let timer: NodeJS.Timeout | undefined;
    let isHung = false;
    const onTold = (told: Told): void => {
      if (told.kind === 'ended') over.resolve(told);
      else
        timer = setTimeout(() => {
          isHung = true;
          process.kill(told.pid, 'SIGKILL');
        }, program.timeoutMs);
    };
    running = { run, onGate, onTold };
    const { args, env } = program;
    const order: Order = { run, args, env, stderrFile, isGated: onGate !== null, isWarmUp };
    orders.write(`${JSON.stringify(order)}\n`);
    try {
      const { exitCode, signal } = await Promise.race([over.promise, ended]);
      await gates.idle();
      const stderr = await readFile(stderrFile, 'utf8');
      await rm(stderrFile);
      return { exitCode, signal: signalOf(signal), stderr, isHung };
    } finally {
      clearTimeout(timer);
      running = null;
    }
  };
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const next = last.then(work);
    last = next.catch(() => {});
    return next;
  };
  return {
    run: (program, onGate) => inTurn(() => runOne(program, onGate ?? null, false)),
    warmUp: async (program) => {
      await inTurn(() => runOne(program, null, true));
    },
    close: async () => {
      orders.end();
      await closed;
    },
  };
}

function signalOf(number: number): NodeJS.Signals | null {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}
