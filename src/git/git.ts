import { type ChildProcessByStdio, spawn } from 'node:child_process';
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
}

/** What a git program is given besides its arguments. */
interface GitOptions {
  /** Written to its standard input. */
  readonly input?: string | Uint8Array;
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
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
    // A program that ends before it has read everything says why on its standard error.
    child.stdin.on('error', () => undefined);
    child.stdin.end(options.input);
    const exit = watchExit(child);
    children.set(child, exit);
    void exit.then(() => children.delete(child));
    return { stdout: child.stdout, exit };
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
        child.kill('SIGTERM');
        // It is done only when its output is taken or given up.
        child.stdout.destroy();
      }
      const timer = setTimeout(() => {
        for (const child of children.keys()) child.kill('SIGKILL');
      }, KILL_AFTER_MS);
      await Promise.all(children.values());
      clearTimeout(timer);
    },
  };
}
