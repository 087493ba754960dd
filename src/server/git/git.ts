import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

import { Places } from '../../lib/concurrency/places.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { cleanEnvironment, FIXED_SETTINGS } from './git-environment.ts';
import { splitTokens } from './tokens.ts';

/** How a git program ended. */
interface GitExit {
  /** Null when it was ended by a signal or could not be started. */
  readonly code: number | null;
  /** The end of what it said on its standard error, without credentials. */
  readonly complaint: string;
}

/** A git program under way. */
export interface GitProcess {
  readonly stdout: Readable;
  /** Settles when the program has ended and its output is complete; never rejects. */
  readonly exit: Promise<GitExit>;
  /**
   * Settles when the input has been taken to its end, also what the program did not want; never rejects. Gives what the
   * input failed with, null when it did not.
   */
  readonly fed: Promise<Error | null>;
}

/** What a git program is given besides its arguments. */
interface GitOptions {
  /** Written to its standard input. The program is ended when this fails: it must not take a part for the whole. */
  readonly input?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** Ends the program when aborted. */
  readonly signal?: AbortSignal;
  /** Variables added to the clean environment. */
  readonly environment?: Readonly<Record<string, string>>;
  /** An exit code besides 0 that is an answer and no failure. */
  readonly alsoFine?: number;
  /**
   * Where it is to be ended, its input is closed instead, and it has so long to clear away and end by itself, in milliseconds; ended
   * at once if left out.
   */
  readonly graceMs?: number;
}

/** What a git program that reads from somebody else may use up; it is ended where it wants more. */
export interface GitBounds {
  /** From its start, in milliseconds. */
  readonly limitMs?: number;
  readonly maxOutputBytes?: number;
  /**
   * Of it and each program that it starts and that does not raise it, in KiB of addresses; not kept to by systems that count none
   * (macOS).
   */
  readonly maxMemoryKib?: number;
  /** Of each file that it or a program that it starts writes, in bytes; git says "File too large" where it would be larger. */
  readonly maxFileBytes?: number;
}

interface RunOptions extends GitOptions, GitBounds {
  /** It takes no place among those whose answer is short: somebody else decides how long it takes. */
  readonly isLong?: boolean;
}

/** A git program that was ended at one of its bounds. */
export class GitBoundError extends MirrorError {
  readonly bound: 'time' | 'output';

  constructor(bound: 'time' | 'output', command: string) {
    super('service.failed', `git ${command} was ended at the limit of its ${bound}`);
    this.bound = bound;
  }
}

/** Runs git. Every instance knows the programs that it started and can end them. */
export interface Git {
  /**
   * Runs git to its end.
   * @param gitDirectory the bare repository, or null for a command that needs none
   * @returns its standard output
   * @throws MirrorError `service.failed` when it does not end with 0, GitBoundError
   */
  readonly run: (
    gitDirectory: string | null,
    args: readonly string[],
    options?: RunOptions,
  ) => Promise<Buffer>;
  /**
   * As `run`, for output of any length made of NUL-terminated tokens, which are handed over one at a time as UTF-8.
   * @param onToken is told whether a token was cut, as one longer than `limitBytes` is
   * @throws MirrorError `service.failed` when it does not end with 0
   */
  readonly tokens: (
    gitDirectory: string,
    args: readonly string[],
    onToken: (token: string, isCut: boolean) => void,
    limitBytes?: number,
  ) => Promise<void>;
  /** Starts git and gives its output as it comes; whoever calls looks at `exit`. */
  readonly start: (gitDirectory: string, args: readonly string[], options?: GitOptions) => GitProcess;
  /** Ends every program under way and waits until none is left; nothing can be started afterwards. */
  readonly stop: () => Promise<void>;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** Commands whose answer is short take turns, so that many requests at once do not become as many processes. */
const SHORT_COMMANDS_AT_ONCE = 8;
const COMPLAINT_LIMIT_CHARACTERS = 2000;
const KILL_AFTER_MS = 1000;

/** Joins and trims what git said, without the user part of any address in it. */
function redact(text: string): string {
  return text.replaceAll(/\/\/[^/\s@]*@/g, '//').trim();
}

function signalGroup({ pid }: Child, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // All of them have ended.
  }
}

/** Ends a program and all that it has started: politely, so that it can clear away, and by force where it takes too long. */
function endGroup(child: Child): void {
  signalGroup(child, 'SIGTERM');
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), KILL_AFTER_MS);
  child.once('close', () => clearTimeout(timer));
}

/** Ends a program, after a time in which it can end by itself for want of input. */
function endEarly(child: Child, graceMs: number | undefined): void {
  child.stdin.destroy();
  if (graceMs === undefined) {
    endGroup(child);
    return;
  }
  const timer = setTimeout(endGroup, graceMs, child);
  child.once('close', () => clearTimeout(timer));
}

function watchExit(child: Child): Promise<GitExit> {
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-COMPLAINT_LIMIT_CHARACTERS);
  });
  return new Promise((resolve) => {
    child.on('error', (error) => {
      // The same event reports a signal that could not be sent; only a program that never started ends here.
      if (child.pid === undefined)
        resolve({ code: null, complaint: `git cannot be started: ${error.message}` });
    });
    child.on('close', (code) => {
      resolve({ code, complaint: redact(complaint) });
    });
  });
}

function give(child: Child, { input, graceMs }: GitOptions): Promise<Error | null> {
  if (input !== undefined && typeof input !== 'string' && !(input instanceof Uint8Array))
    return feed(child, input, graceMs);
  child.stdin.end(input);
  return Promise.resolve(null);
}

/** Hands a program its input as it comes; gives what the input failed with. */
async function feed(
  child: Child,
  input: AsyncIterable<Uint8Array>,
  graceMs: number | undefined,
): Promise<Error | null> {
  const closed = new Promise<void>((resolve) => child.stdin.once('close', resolve));
  try {
    for await (const chunk of input) {
      // A program that ended early has its reasons; whoever sends learns of them when everything is sent.
      if (child.stdin.destroyed || child.stdin.write(chunk)) continue;
      const drained = new AbortController();
      const wait = once(child.stdin, 'drain', { signal: drained.signal }).catch(() => undefined);
      await Promise.race([wait, closed]);
      drained.abort();
    }
    child.stdin.end();
    return null;
  } catch (error) {
    endEarly(child, graceMs);
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** What a shell counts the sizes of files in (sh(1), `ulimit`). */
const BLOCK_BYTES = 512;

type Resources = Pick<GitBounds, 'maxMemoryKib' | 'maxFileBytes'>;

/** The program and its arguments; a shell sets the bounds of what it may use up and is replaced by git (sh(1), `ulimit`). */
function commandOf(args: readonly string[], { maxMemoryKib, maxFileBytes }: Resources): [string, string[]] {
  const steps: string[] = [];
  if (maxMemoryKib !== undefined) steps.push(`ulimit -S -v ${maxMemoryKib}`);
  if (maxFileBytes !== undefined) {
    // Git is told of the error and not ended by a signal, which would leave a core.
    steps.push("command trap '' XFSZ", `ulimit -S -f ${Math.ceil(maxFileBytes / BLOCK_BYTES)}`);
  }
  if (steps.length === 0) return ['git', [...args]];
  const script = [...steps.map((step) => `${step} 2>/dev/null || :`), 'exec git "$@"'].join('; ');
  return ['sh', ['-c', script, 'sh', ...args]];
}

/** Watches the bounds of a program that ends when the signal is aborted. */
function watchBounds({ limitMs, maxOutputBytes = Number.POSITIVE_INFINITY }: GitBounds, command: string) {
  const ending = new AbortController();
  const exceed = (bound: GitBoundError['bound']): void => ending.abort(new GitBoundError(bound, command));
  let timer: NodeJS.Timeout | undefined;
  let sizeBytes = 0;
  return {
    signal: ending.signal,
    begin(): void {
      if (limitMs !== undefined) timer = setTimeout(exceed, limitMs, 'time');
    },
    /** Says whether so much more may still be taken. */
    take(moreBytes: number): boolean {
      sizeBytes += moreBytes;
      if (sizeBytes > maxOutputBytes) exceed('output');
      return sizeBytes <= maxOutputBytes;
    },
    release: () => clearTimeout(timer),
  };
}

/** What git is told to do, which settings (`-c`) may precede. */
function subcommandOf(args: readonly string[]): string {
  return args.find((arg, index) => arg !== '-c' && args[index - 1] !== '-c') ?? '';
}

function failure(args: readonly string[], exit: GitExit): MirrorError {
  const ending = exit.code === null ? 'was ended early' : `ended with ${exit.code}`;
  const detail = exit.complaint === '' ? '' : `: ${exit.complaint.replaceAll(/\s*\n\s*/g, '; ')}`;
  return new MirrorError('service.failed', `git ${subcommandOf(args)} ${ending}${detail}`, {
    hint: 'Check that the program git is installed and that the service data directory is readable and writable.',
  });
}

type StartOptions = GitOptions & Resources;

function spawnGit(gitDirectory: string | null, args: readonly string[], options: StartOptions): Child {
  const where = gitDirectory === null ? [] : [`--git-dir=${gitDirectory}`];
  const [program, all] = commandOf([...FIXED_SETTINGS, ...where, ...args], options);
  return spawn(program, all, {
    env: cleanEnvironment(options.environment),
    stdio: ['pipe', 'pipe', 'pipe'],
    // Git starts further programs, which would outlive it and hold its output open: a group of its own ends as one.
    detached: true,
  });
}

async function takeOutput(
  { stdout }: GitProcess,
  bounds: ReturnType<typeof watchBounds>,
  onChunk: (chunk: Buffer) => void,
  isStopped: () => boolean,
): Promise<void> {
  bounds.begin();
  try {
    for await (const chunk of stdout as AsyncIterable<Buffer>) if (bounds.take(chunk.length)) onChunk(chunk);
  } catch (error) {
    // Being stopped shows as the end of the program.
    if (!isStopped()) throw error;
  } finally {
    bounds.release();
  }
}

/** Makes a runner of git programs. */
export function createGit(): Git {
  const children = new Map<Child, Promise<GitExit>>();
  const short = new Places(SHORT_COMMANDS_AT_ONCE);
  let stopped = false;

  function start(
    gitDirectory: string | null,
    args: readonly string[],
    options: StartOptions = {},
  ): GitProcess {
    if (stopped) throw new MirrorError('service.failed', 'the service is closing');
    const child = spawnGit(gitDirectory, args, options);
    const abort = (): void => endEarly(child, options.graceMs);
    options.signal?.addEventListener('abort', abort);
    if (options.signal?.aborted === true) abort();
    // A program that ends before it has read everything says why on its standard error.
    child.stdin.on('error', () => undefined);
    const fed = give(child, options);
    const exit = watchExit(child);
    children.set(child, exit);
    void exit.finally(() => {
      children.delete(child);
      options.signal?.removeEventListener('abort', abort);
    });
    return { stdout: child.stdout, exit, fed };
  }

  async function consume(
    gitDirectory: string | null,
    args: readonly string[],
    options: RunOptions,
    onChunk: (chunk: Buffer) => void,
  ): Promise<void> {
    const bounds = watchBounds(options, subcommandOf(args));
    const signals = [bounds.signal, ...(options.signal === undefined ? [] : [options.signal])];
    const child = start(gitDirectory, args, { ...options, signal: AbortSignal.any(signals) });
    await takeOutput(child, bounds, onChunk, () => stopped);
    const ending = await child.exit;
    bounds.signal.throwIfAborted();
    if (ending.code !== 0 && ending.code !== options.alsoFine) throw failure(args, ending);
  }

  return {
    start,
    run(gitDirectory, args, options = {}) {
      const collect = async (): Promise<Buffer> => {
        const chunks: Buffer[] = [];
        await consume(gitDirectory, args, options, (chunk) => chunks.push(chunk));
        return Buffer.concat(chunks);
      };
      return options.isLong === true ? collect() : short.run(collect);
    },
    tokens: (gitDirectory, args, onToken, limitBytes) =>
      short.run(() => consume(gitDirectory, args, {}, splitTokens(onToken, limitBytes))),
    async stop() {
      stopped = true;
      for (const child of children.keys()) {
        endGroup(child);
        // It is done only when its output is taken or given up.
        child.stdout.destroy();
      }
      await Promise.all(children.values());
    },
  };
}
