import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

import { MirrorError } from '../model/errors.ts';
import { cleanEnvironment, FIXED_SETTINGS } from './git-environment.ts';
import { createLimit } from './limit.ts';
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
}

/** Runs git. Every instance knows the programs that it started and can end them. */
export interface Git {
  /**
   * Runs git to its end.
   * @param gitDirectory the bare repository, or null for a command that needs none
   * @returns its standard output
   * @throws MirrorError `service.failed` when it does not end with 0
   */
  readonly run: (
    gitDirectory: string | null,
    args: readonly string[],
    options?: GitOptions,
  ) => Promise<Buffer>;
  /**
   * As `run`, for output of any length made of NUL-terminated tokens, which are handed over one at a time as UTF-8.
   * @throws MirrorError `service.failed` when it does not end with 0
   */
  readonly tokens: (
    gitDirectory: string,
    args: readonly string[],
    onToken: (token: string) => void,
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

function give(child: Child, input: GitOptions['input']): Promise<Error | null> {
  if (input !== undefined && typeof input !== 'string' && !(input instanceof Uint8Array))
    return feed(child, input);
  child.stdin.end(input);
  return Promise.resolve(null);
}

/** Hands a program its input as it comes; gives what the input failed with. */
async function feed(child: Child, input: AsyncIterable<Uint8Array>): Promise<Error | null> {
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
    endGroup(child);
    child.stdin.destroy();
    return error instanceof Error ? error : new Error(String(error));
  }
}

function failure(args: readonly string[], exit: GitExit): MirrorError {
  const ending = exit.code === null ? 'was ended early' : `ended with ${exit.code}`;
  const detail = exit.complaint === '' ? '' : `: ${exit.complaint.replaceAll(/\s*\n\s*/g, '; ')}`;
  return new MirrorError('service.failed', `git ${args[0] ?? ''} ${ending}${detail}`, {
    hint: 'Check that the program git is installed and that the service data directory is readable and writable.',
  });
}

/** Makes a runner of git programs. */
export function createGit(): Git {
  const children = new Map<Child, Promise<GitExit>>();
  const inTurn = createLimit(SHORT_COMMANDS_AT_ONCE);
  let stopped = false;

  function start(gitDirectory: string | null, args: readonly string[], options: GitOptions = {}): GitProcess {
    if (stopped) throw new MirrorError('service.failed', 'the service is closing');
    const where = gitDirectory === null ? [] : [`--git-dir=${gitDirectory}`];
    const child = spawn('git', [...FIXED_SETTINGS, ...where, ...args], {
      env: cleanEnvironment(options.environment),
      stdio: ['pipe', 'pipe', 'pipe'],
      // Git starts further programs, which would outlive it and hold its output open: a group of its own ends as one.
      detached: true,
    });
    const abort = (): void => endGroup(child);
    options.signal?.addEventListener('abort', abort);
    if (options.signal?.aborted === true) abort();
    // A program that ends before it has read everything says why on its standard error.
    child.stdin.on('error', () => undefined);
    const fed = give(child, options.input);
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
    options: GitOptions,
    onChunk: (chunk: Buffer) => void,
  ): Promise<void> {
    const { stdout, exit } = start(gitDirectory, args, options);
    try {
      for await (const chunk of stdout as AsyncIterable<Buffer>) onChunk(chunk);
    } catch (error) {
      // Being stopped shows below, as the end of the program.
      if (!stopped) throw error;
    }
    const ending = await exit;
    if (ending.code !== 0 && ending.code !== options.alsoFine) throw failure(args, ending);
  }

  return {
    start,
    run: (gitDirectory, args, options = {}) =>
      inTurn(async () => {
        const chunks: Buffer[] = [];
        await consume(gitDirectory, args, options, (chunk) => chunks.push(chunk));
        return Buffer.concat(chunks);
      }),
    tokens: (gitDirectory, args, onToken) =>
      inTurn(() => consume(gitDirectory, args, {}, splitTokens(onToken))),
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
