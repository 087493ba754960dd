import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';

import { createSerialQueue } from '../../src/lib/concurrency/serial-queue.ts';
import type { AtGate } from './gate.ts';
import {
  type Gates,
  type Launcher,
  type NodeProgram,
  onLines,
  type OnGate,
  openGates,
  type RunEnded,
} from './launcher.ts';
import type { Order, Told } from './orders.ts';
import { quietWakeUps } from './wake-ups.ts';

/** Runs a program so that its code is there in later runs. */
export type WarmUp = (run: (program: NodeProgram) => Promise<unknown>) => Promise<void>;

/** A process that runs programs without a start of Node for each. */
interface Server {
  readonly run: (program: NodeProgram, onGate: OnGate | null, isWarmUp: boolean) => Promise<RunEnded>;
  /** Whether it was there after its last run. */
  readonly isAlive: () => boolean;
  readonly runs: () => number;
  readonly close: () => Promise<void>;
}

interface Running {
  readonly run: number;
  readonly onGate: OnGate | null;
  readonly onTold: (told: Told) => void;
}

type Ended = Pick<RunEnded, 'exitCode' | 'signal' | 'openFiles'>;

/** Numbers runs over all servers, so that nothing of an earlier run is taken for a later one's. */
let runs = 0;

/** @param folder where a run's output goes meanwhile @param openAll opens the gates, given what is running */
function startServer(
  program: string,
  folder: string,
  openAll: (channel: Duplex, running: () => Running | null) => Gates,
): Server {
  const server = spawn(
    process.execPath,
    ['--single-threaded', '--no-flush-bytecode', join(import.meta.dirname, program)],
    {
      env: { PATH: process.env['PATH'], ...quietWakeUps },
      stdio: ['ignore', 'ignore', 'inherit', 'pipe', 'pipe', 'pipe'],
    },
  );
  const [gateChannel, orders, told] = server.stdio.slice(3) as Duplex[];
  if (gateChannel === undefined || orders === undefined || told === undefined)
    throw new Error(`${program} has no channels`);
  orders.on('error', () => {});
  let running: Running | null = null;
  let count = 0;
  const gates = openAll(gateChannel, () => running);
  onLines(told, (line) => running?.onTold(JSON.parse(line) as Told));
  const closed: Promise<Ended> = once(server, 'close').then(([exitCode, signal]) => ({
    exitCode: exitCode as number | null,
    signal: signal as NodeJS.Signals | null,
    openFiles: [],
  }));

  return {
    run: async ({ args, env, timeoutMs }, onGate, isWarmUp) => {
      const run = (runs += 1);
      count += 1;
      const stderrFile = join(folder, `stderr-${server.pid}`);
      await writeFile(stderrFile, '');
      const over = Promise.withResolvers<Ended>();
      let timer: NodeJS.Timeout | undefined;
      let isHung = false;
      const onTold = (told: Told): void => {
        if (told.kind === 'ended') over.resolve({ ...told, signal: signalOf(told.signal) });
        else
          timer = setTimeout(() => {
            isHung = true;
            process.kill(told.pid, 'SIGKILL');
          }, timeoutMs);
      };
      running = { run, onGate, onTold };
      const order: Order = { run, args, env, stderrFile, isGated: onGate !== null, isWarmUp };
      orders.write(`${JSON.stringify(order)}\n`);
      try {
        const { exitCode, signal, openFiles } = await Promise.race([over.promise, closed]);
        await gates.idle();
        const stderr = await readFile(stderrFile, 'utf8');
        await rm(stderrFile);
        return { exitCode, signal, stderr, isHung, openFiles };
      } finally {
        clearTimeout(timer);
        running = null;
      }
    },
    isAlive: () => server.exitCode === null && server.signalCode === null,
    runs: () => count,
    close: async () => {
      orders.end();
      await closed;
    },
  };
}

/** Runs programs in forks of one process that has loaded them already, one at a time. @param folder where a run's output goes meanwhile */
export function forkedNode(folder: string, warmUp: WarmUp): Promise<Launcher> {
  return launcherOn(
    () =>
      startServer('fork-server.ts', folder, (channel, running) =>
        openGates(channel, ({ run }) => {
          const now = running();
          return run === now?.run ? now.onGate : null;
        }),
      ),
    warmUp,
  );
}

/** Memory that a program keeps from run to run is given back after so many. */
const MOST_RUNS = 1000;

/**
 * Runs programs in one process, one after the other; another one takes its place where a run ended it, and every now and then.
 * @param folder where a run's output goes meanwhile
 */
export function lastingNode(folder: string, warmUp: WarmUp): Promise<Launcher> {
  return launcherOn(() => startServer('lasting-server.ts', folder, openLasting), warmUp);
}

/** Threads that are there from runs before wait at no gate: they are told of when the main thread waits at its own. */
function openLasting(channel: Duplex, running: () => Running | null): Gates {
  const threads = new Map<string, AtGate>();
  return openGates(channel, (here) => {
    if (here.name !== 'main') threads.set(here.name, here);
    return async () => {
      const onGate = running()?.onGate;
      if (onGate === null || onGate === undefined) return;
      await onGate(here);
      if (here.name !== 'main') return;
      for (const thread of threads.values())
        if (existsSync(`/proc/${thread.pid}/task/${thread.threadId}`)) await onGate(thread);
    };
  });
}

async function launcherOn(start: () => Server, warmUp: WarmUp): Promise<Launcher> {
  const startWarm = async (): Promise<Server> => {
    const server = start();
    await warmUp((program) => server.run(program, null, true));
    return server;
  };
  const turns = createSerialQueue();
  let server = await startWarm();
  return {
    run: (program, onGate) =>
      turns.run(async () => {
        if (!server.isAlive() || server.runs() > MOST_RUNS) {
          await server.close();
          server = await startWarm();
        }
        return server.run(program, onGate ?? null, false);
      }),
    close: () => turns.run(() => server.close()),
  };
}

function signalOf(number: number): NodeJS.Signals | null {
  const found = Object.entries(constants.signals).find(([, value]) => value === number);
  return (found?.[0] as NodeJS.Signals | undefined) ?? null;
}
