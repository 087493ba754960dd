import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';

/** The costs of one run of a contender. */
export interface Sample {
  readonly wallMs: number;
  /** User and system time of all its processes; null if it cannot be separated from other work. */
  readonly cpuMs: number | null;
  /** Peak memory of all its processes together; null if unknown. */
  readonly peakBytes: number | null;
  /** Other figures, by the name of their column. */
  readonly more?: Readonly<Record<string, number>>;
}

/** A program to run. */
interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly input?: string;
}

/** The failure of a contender's program, with its output. */
export class ContenderError extends Error {}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // A process that is gone uses nothing.
    return '';
  }
}

/** Two neighbouring fields of proc(5)'s stat, in ticks of 10 ms: from 11 for a process, from 13 for its ended children. */
function ticksMs(pid: number | 'self', from: 11 | 13): number {
  const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
  return (Number(fields[from] ?? 0) + Number(fields[from + 1] ?? 0)) * 10;
}

/** CPU time of a process and all its threads, in milliseconds. */
export function cpuMsOf(pid: number): number {
  return ticksMs(pid, 11);
}

/** Memory of a process, in bytes: current (VmRSS) or peak (VmHWM). */
export function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  return (
    Number(new RegExp(String.raw`^${field}:\s+(\d+)`, 'm').exec(read(`/proc/${pid}/status`))?.[1] ?? 0) * 1024
  );
}

function memoryOfTree(pid: number): number {
  const children = read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean);
  return memoryOf(pid, 'VmRSS') + children.reduce((sum, child) => sum + memoryOfTree(Number(child)), 0);
}

/** Runs a program and measures its costs. @throws ContenderError if it fails */
export async function measure(command: Command): Promise<Sample & { readonly stdout: string }> {
  const cpuBeforeMs = ticksMs('self', 13);
  const startedAtMs = performance.now();
  const child = spawn(command.program, command.args, {
    env: { ...process.env, ...command.environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const pid = child.pid ?? 0;
  let [peakBytes, stdout, stderr] = [0, '', ''];
  const timer = setInterval(() => {
    peakBytes = Math.max(peakBytes, memoryOfTree(pid), memoryOf(pid, 'VmHWM'));
  }, 25);
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-2000)));
  child.stdin.on('error', () => {}).end(command.input ?? '');
  const [exitCode] = (await once(child, 'close')) as [number | null];
  clearInterval(timer);
  if (exitCode !== 0)
    throw new ContenderError(
      `${command.program} ${command.args.join(' ')} ended with ${exitCode}:\n${stderr}`,
    );
  return {
    wallMs: performance.now() - startedAtMs,
    cpuMs: ticksMs('self', 13) - cpuBeforeMs,
    peakBytes,
    stdout,
  };
}

/** Runs a program, then flushes the file system of a folder, and measures both together. */
export async function measureFlushed(command: Command, folder: string): Promise<Sample> {
  const sample = await measure(command);
  const flush = await measure({ program: 'sync', args: ['-f', folder] });
  return { wallMs: sample.wallMs + flush.wallMs, cpuMs: sample.cpuMs, peakBytes: sample.peakBytes };
}

/** One measured alternative. */
export interface Contender {
  readonly name: string;
  /** Required programs, by the names of their Debian packages; without them it is left out. */
  readonly needs?: readonly Tool[];
  /** Runs once. */
  readonly run: () => Promise<Sample>;
  /** Checks the result and cleans up; not timed. */
  readonly after?: () => Promise<void>;
}

/** Programs that contenders need, with their Debian packages. */
export const PACKAGES = {
  bsdtar: 'libarchive-tools',
  curl: 'curl',
  jq: 'jq',
  rsync: 'rsync',
} as const;
export type Tool = keyof typeof PACKAGES;

/** The programs that this machine lacks. */
export function missingOf(tools: readonly Tool[]): Tool[] {
  return tools.filter((tool) => spawnSync(tool, ['--version'], { stdio: 'ignore' }).error !== undefined);
}

/** The measurements of a contender. */
export interface Measured {
  readonly contender: string;
  readonly samples: Sample[];
  /** Why it was left out, or its failure. */
  missing?: string;
}

/**
 * Runs contenders in turn, round after round, so that other load disturbs all of them. The first round warms up and does not count.
 * @param beforeRound prepares the start of a round
 */
export async function compare(
  runs: number,
  contenders: readonly Contender[],
  beforeRound: () => Promise<void> = () => Promise.resolve(),
): Promise<Measured[]> {
  const rows = contenders.map(({ name, needs = [] }): Measured => {
    const [missing] = missingOf(needs);
    const reason =
      missing === undefined ? {} : { missing: `needs ${missing} (Debian package ${PACKAGES[missing]})` };
    return { contender: name, samples: [], ...reason };
  });
  for (let round = 0; round <= runs; round += 1) {
    await beforeRound();
    for (const [index, contender] of contenders.entries()) {
      const row = rows[index];
      if (row === undefined || row.missing !== undefined) continue;
      process.stderr.write(`${round === 0 ? 'warm-up' : `run ${round} of ${runs}`}: ${contender.name}\n`);
      // Flush first: otherwise a run would pay for the one before.
      spawnSync('sync');
      try {
        const sample = await contender.run();
        await contender.after?.();
        if (round > 0) row.samples.push(sample);
      } catch (error) {
        if (!(error instanceof ContenderError)) throw error;
        process.stderr.write(`error: ${contender.name}: ${error.message}\n`);
        process.exitCode = 1;
        row.missing = 'failed';
      }
    }
  }
  return rows;
}

/** The median of some numbers; NaN without numbers. */
export function medianOf(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}
