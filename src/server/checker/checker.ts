import { availableParallelism } from 'node:os';

import type { FileBytes, Finding, WorkbookKind } from './workbook-check.ts';
import { CHECK_LIMITS, type CheckLimits } from './limits.ts';
import { createOpener, type Opener } from './opener.ts';

/** Opens files, to find out whether they are workbooks. */
export interface WorkbookChecker {
  /** How many files it opens at once; others wait. */
  readonly places: number;
  /** Never rejects, and takes bounded time. Gives null for what could not be checked now, through no fault of the file. */
  readonly check: (kind: WorkbookKind, file: FileBytes) => Promise<Finding | null>;
  /** Ends what is under way: of those files nothing is found. */
  readonly close: () => Promise<void>;
}

/** Each place may take more than a gigabyte in the worst case. */
const MOST_PLACES = 2;

/** Makes a checker; its processes are started when there is something to do. */
export function createChecker(limits: CheckLimits = CHECK_LIMITS): WorkbookChecker {
  const places = Math.min(MOST_PLACES, availableParallelism());
  const openers = Array.from({ length: places }, () => createOpener(limits));
  const free: Opener[] = [...openers];
  const waiting: Array<(opener: Opener) => void> = [];
  let isClosed = false;

  async function take(): Promise<Opener> {
    // The one that was busy last has a process already.
    return free.pop() ?? new Promise<Opener>((resolve) => waiting.push(resolve));
  }

  function giveBack(opener: Opener): void {
    const next = waiting.shift();
    if (next === undefined) free.push(opener);
    else next(opener);
  }

  return {
    places,
    async check(kind, file) {
      const opener = await take();
      try {
        return isClosed ? null : await opener.check(kind, file);
      } finally {
        giveBack(opener);
      }
    },
    async close() {
      isClosed = true;
      await Promise.all(openers.map((opener) => opener.close()));
    },
  };
}
