import { readdir, readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { systemCode } from '../../lib/errors/disk-errors.ts';

/** Names the directory of a service to every program that it starts, and to all that these start. */
const MARK = 'WORKBOOK_MIRROR_SERVED_DIRECTORY';

/** How often, and how long, the end of programs is waited for, in milliseconds. */
const LOOK_EVERY_MS = 20;
const WAIT_LIMIT_MS = 5000;

/**
 * Ends programs that a service of this directory had started and that outlived it, as they do when it is killed: they would go on
 * changing repositories beside this process. From now on programs that this process starts bear the mark of the directory. To be
 * called by whoever holds the lock of the directory, before anything is started. Where the system has no `/proc` (proc(5)),
 * nothing is found.
 * @returns the ids of the processes that were ended
 */
export async function endOrphans(directory: string): Promise<readonly number[]> {
  const { dev, ino } = await stat(directory, { bigint: true });
  const mark = `${dev}:${ino}`;
  const orphans = await findMarked(mark);
  for (const pid of orphans) kill(pid);
  const untilMs = performance.now() + WAIT_LIMIT_MS;
  while ((await findMarked(mark)).length > 0 && performance.now() < untilMs) await sleep(LOOK_EVERY_MS);
  process.env[MARK] = mark;
  return orphans;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}

async function findMarked(mark: string): Promise<number[]> {
  const names = await readdir('/proc').catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid).map(Number);
  const wanted = `${MARK}=${mark}`;
  const marked = await Promise.all(
    pids.map(async (pid) => {
      // The environments of other users' programs cannot be read, and those are not ours; a program that has ended has none.
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
      return environment.split('\0').includes(wanted);
    }),
  );
  return pids.filter((_, index) => marked[index]);
}
