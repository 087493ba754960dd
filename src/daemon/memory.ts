import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

import { bindTrim } from '../lib/native/allocator.ts';

/** Gives back what the passes have left over. */
export interface MemoryRelease {
  /** Work ended: memory is given back a while later, unless there is work again just then. */
  readonly atRest: () => void;
  readonly close: () => void;
}

/** Work that follows at once would only ask for the memory again, and threads that have nothing to do free theirs as they end, after 10 s. */
const REST_MS = 20_000;
/** Less than this is not worth a collection, which stops everything else for two to four milliseconds a megabyte in use. */
const LEAST_BYTES = 8 * 1024 * 1024;
/** The memory in use may grow by this share before the next collection, so that a big heap is not collected at every pass. */
const GROWTH_SHARE = 0.5;

/**
 * Gives memory back while the daemon rests. V8 collects by what is allocated and sizes its heap by the machine: without
 * this, a daemon that does nothing for minutes would keep hundreds of megabytes of garbage until the next pass.
 * @param isWorking whether a pass or a pull is under way
 */
export function createMemoryRelease(isWorking: () => boolean): MemoryRelease {
  const trim = bindTrim();
  let timer: NodeJS.Timeout | undefined;
  let usedBytes = 0;
  let restMs = REST_MS;
  const release = (): void => {
    timer = undefined;
    // Passes on a schedule may always be under way just now: the end of this one will do.
    restMs = isWorking() ? 0 : REST_MS;
    if (restMs === 0) return;
    const grownBytes = process.memoryUsage().heapTotal - usedBytes;
    if (grownBytes > Math.max(LEAST_BYTES, usedBytes * GROWTH_SHARE)) {
      collect();
      usedBytes = process.memoryUsage().heapUsed;
    }
    // The collection gives back none of what lies beside the heap.
    trim();
  };
  return {
    atRest: () => {
      // Not put off by later work: a daemon that has some every few seconds would never give anything back.
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
