import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { declare, openLibc } from '../lib/native/library.ts';

/** Releases unused memory after passes. */
export interface MemoryRelease {
  /** Work ended: memory is released a while later, unless work is running then. */
  readonly atRest: () => void;
  readonly close: () => void;
}

/** Wait before releasing: work that follows immediately would need the memory again, and idle threads release theirs after 10 s. */
const REST_MS = 20_000;
/** Less than this is not worth a collection, which pauses the process for 2 to 4 ms per megabyte in use. */
const LEAST_BYTES = 8 * 1024 * 1024;
/** The memory in use may grow by this share before the next collection, so that a big heap is not collected at every pass. */
const GROWTH_SHARE = 0.5;

/**
 * Releases memory while the daemon is idle. V8 collects only when memory is allocated, and sizes its heap by the machine: without
 * this, an idle daemon would keep hundreds of megabytes of garbage until the next pass.
 * @param isWorking whether a pass or a pull is running
 */
export function createMemoryRelease(isWorking: () => boolean): MemoryRelease {
  const trim = bindTrim();
  let timer: NodeJS.Timeout | undefined;
  let usedBytes = 0;
  let restMs = REST_MS;
  const release = (): void => {
    timer = undefined;
    // Some work may run at every such moment, so wait only for the end of this one.
    restMs = isWorking() ? 0 : REST_MS;
    if (restMs === 0) return;
    const grownBytes = process.memoryUsage().heapTotal - usedBytes;
    if (grownBytes > Math.max(LEAST_BYTES, usedBytes * GROWTH_SHARE)) {
      collect();
      usedBytes = process.memoryUsage().heapUsed;
    }
    // The collection does not release memory outside the heap.
    trim();
  };
  return {
    atRest: () => {
      // Later work does not delay it: a daemon with work every few seconds would never release memory.
      timer ??= setTimeout(release, restMs).unref();
    },
    close: () => clearTimeout(timer),
  };
}

/** Collects all garbage and gives its pages back, by V8's own `gc` (`node --v8-options`, --expose-gc). */
function collect(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext("gc({ type: 'major', flavor: 'last-resort' })");
}

/** The `mallopt(3)` parameter for the greatest number of arenas (malloc.h of glibc). */
const M_ARENA_MAX = -8;

/**
 * Makes all threads of this process allocate from two arenas, if the C library has several. Otherwise each thread would have its own,
 * and keep the unused gaps in it: 10 MB in all.
 */
export function shareArenas(): void {
  declare(openLibc(), 'int mallopt(int param, int value)')?.(M_ARENA_MAX, 2);
}

/**
 * Binds `malloc_trim(3)`, which returns freed memory from the C library to the system. It does nothing if the library has
 * no such call, as musl.
 */
function bindTrim(): () => void {
  const trim = declare(openLibc(), 'int malloc_trim(size_t pad)');
  return () => void trim?.(0);
}
