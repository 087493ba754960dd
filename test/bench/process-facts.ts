import { readFileSync } from 'node:fs';

/** What /proc (proc(5)) tells of processes. Nothing of it fails: a process that is gone takes and took nothing. */

const TICKS_PER_SECOND = 100;
const UTIME = 11;
const CUTIME = 13;

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function statOf(pid: number | 'self'): string[] {
  const text = read(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function ticksAt(fields: readonly string[], index: number): number {
  return Number(fields[index] ?? 0) + Number(fields[index + 1] ?? 0);
}

/** CPU time of a process and all its threads, user and system, in milliseconds; to the nearest 10. */
export function cpuMsOf(pid: number): number {
  return (ticksAt(statOf(pid), UTIME) * 1000) / TICKS_PER_SECOND;
}

/** CPU time of all children of this process that have ended, with theirs, in milliseconds; to the nearest 10. */
export function cpuMsOfEndedChildren(): number {
  return (ticksAt(statOf('self'), CUTIME) * 1000) / TICKS_PER_SECOND;
}

/** Memory of a process, in bytes: now (VmRSS), or the most that it ever had (VmHWM). */
export function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const status = read(`/proc/${pid}/status`);
  return Number(new RegExp(String.raw`^${field}:\s+(\d+) kB`, 'm').exec(status)?.[1] ?? 0) * 1024;
}

/** Memory of a process and of all that it started, in bytes; what they share is counted for each. */
export function memoryOfTree(pid: number): number {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean);
  let sumBytes = memoryOf(pid, 'VmRSS');
  for (const child of children) sumBytes += memoryOfTree(Number(child));
  return sumBytes;
}
