import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { declare, openLibc } from '../lib/native/library.ts';

/** Wait before releasing: work that follows immediately would need the memory again, and idle threads release theirs after 10 s. */
const REST_MS = 20_000;
/** A heap below this is collected every time. The collection pauses the process for 2 to 4 ms per megabyte in use. */
const SMALL_BYTES = 32 * 1024 * 1024;
/** A larger heap may grow by this share before the next collection, so that it is not collected after every pass. */
const GROWTH_SHARE = 0.5;

/**
 * Releases memory while the daemon is idle. V8 collects only when memory is allocated, and sizes its heap by the machine: without
 * this, an idle daemon would keep hundreds of megabytes of garbage until the next pass.
 * @param isWorking whether a pass or a pull is running
 */
export function createMemoryRelease(isWorking: () => boolean) {
  const trim = bindTrim();
  let timer: NodeJS.Timeout | undefined;
  let usedBytes = 0;
  let restMs = REST_MS;
  const release = (): void => {
    timer = undefined;
    // Some work may run at every such moment, so wait only for the end of this one.
    restMs = isWorking() ? 0 : REST_MS;
    if (restMs === 0) return;
    const heapBytes = process.memoryUsage().heapTotal;
    if (heapBytes < SMALL_BYTES || heapBytes - usedBytes > usedBytes * GROWTH_SHARE) {
      collect();
      usedBytes = process.memoryUsage().heapUsed;
    }
    // The collection does not release memory outside the heap.
    trim();
  };
  return {
    /** Work ended: memory is released a while later, unless work is running then. */
    atRest: (): void => {
      // Later work does not delay it: a daemon with work every few seconds would never release memory.
      timer ??= setTimeout(release, restMs).unref();
    },
    close: (): void => clearTimeout(timer),
  };
}

/** Collects all garbage and gives its pages back, by V8's own `gc` (`node --v8-options`, --expose-gc). */
function collect(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext("gc({ type: 'major', flavor: 'last-resort' })");
}

/**
 * Binds `malloc_trim(3)`, which returns freed memory from the C library to the system. It does nothing if the library has
 * no such call, as musl.
 */
function bindTrim(): () => void {
  const trim = declare(openLibc(), 'int malloc_trim(size_t pad)');
  return () => void trim?.(0);
}
