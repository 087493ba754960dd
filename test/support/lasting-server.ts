import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import workerThreads, { type Worker, type WorkerOptions } from 'node:worker_threads';
import { setTimeout as sleep } from 'node:timers/promises';

import { gatedThread, useOneThread, waitAtGate } from './gate.ts';
import { dup2, exitNow, type Order, readOrder, runHere, takeEnvironment, tell, type Told } from './orders.ts';

/**
 * Runs a program in this process itself, one run after another, which spares them also what a fork has to do anew: its memory, its
 * compiled code, its threads. What kills a run ends the server.
 */

/** Names threads by their order, and keeps those that the program ends for its next runs. */
function keepThreads(): void {
  const { Worker } = workerThreads;
  const kept: { readonly worker: Worker; readonly program: string }[] = [];
  const names = new Set<string>();
  const start = (program: string, options: WorkerOptions | undefined): Worker => {
    let number = 1;
    while (names.has(`thread-${number}`)) number += 1;
    const name = `thread-${number}`;
    names.add(name);
    const worker = new Worker(gatedThread(0, name, program), options);
    const watch = (): Worker => worker.once('exit', () => names.delete(name));
    worker.terminate = () => {
      // Node itself listens, too, to what is put on and taken off.
      for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event);
      kept.push({ worker: watch(), program });
      return Promise.resolve(0);
    };
    return watch();
  };
  const again = (program: string): Worker | undefined => {
    const place = kept.findIndex((each) => each.program === program);
    return place === -1 ? undefined : kept.splice(place, 1)[0]?.worker;
  };
  Object.assign(workerThreads, {
    Worker: new Proxy(Worker, {
      construct: (_, [program, options]: [string | URL, WorkerOptions?]) =>
        again(String(program)) ?? start(String(program), options),
    }),
  });
  syncBuiltinESMExports();
}

type Listeners = ReadonlyMap<string | symbol, number>;

function listenersNow(): Listeners {
  return new Map(process.eventNames().map((name) => [name, process.listenerCount(name)]));
}

/** Takes off what the program has put on that would be gone with its process. */
function forgetRun(before: Listeners): void {
  process.exitCode = undefined;
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
  for (const name of process.eventNames()) {
    for (const listener of process.rawListeners(name).slice(before.get(name) ?? 0))
      process.off(name, listener as () => void);
  }
}

/** The files that a process has open, by its descriptors. */
function openFilesNow(): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      if (path.startsWith('/') && !path.startsWith('/proc/')) found.set(fd, path);
    } catch {
      // The one that lists them is closed again.
    }
  }
  return found;
}

/** More turns of the event loop than any request for a file takes that was on its way when a run ended. */
const MOST_TURNS = 2000;

/** Waits for what a process would end for, too: what the program has asked of the system and has not waited for. */
async function endOfRequests(): Promise<void> {
  let turns = 0;
  do {
    turns += 1;
    await sleep(turns < 10 ? 0 : 1);
  } while (turns < MOST_TURNS && process.getActiveResourcesInfo().some((name) => name.includes('Req')));
}

/** What keeps a process from its end, by kind; threads are kept for the next run. */
function holdersNow(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of process.getActiveResourcesInfo())
    if (name !== 'MessagePort' && name !== 'Worker') counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

type Ending = Pick<Extract<Told, { kind: 'ended' }>, 'exitCode' | 'openFiles'>;

async function runOnce(order: Order): Promise<Ending> {
  const filesBefore = openFilesNow();
  const holdersBefore = holdersNow();
  const before = listenersNow();
  const stderr = openSync(order.stderrFile, 'w');
  dup2(stderr, 2);
  closeSync(stderr);
  takeEnvironment(order);
  if (order.isGated) await waitAtGate(order.run);
  await runHere(order);
  await endOfRequests();
  const exitCode = Number(process.exitCode ?? 0);
  forgetRun(before);
  const openFiles = [...openFilesNow()].filter(([fd]) => Number(fd) > 2 && !filesBefore.has(fd));
  const holders = [...holdersNow()].filter(([name, count]) => count > (holdersBefore.get(name) ?? 0));
  return { exitCode, openFiles: [...openFiles.map(([, path]) => path), ...holders.map(([name]) => name)] };
}

useOneThread();
keepThreads();

for (let order = readOrder(); order !== null; order = readOrder()) {
  const { run } = order;
  tell({ kind: 'started', run, pid: process.pid });
  const ending = await runOnce(order);
  tell({ kind: 'ended', run, signal: 0, ...ending });
}
// Node's own end would wait for threads, which may wait at their gates.
exitNow(0);
