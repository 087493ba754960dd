import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { devNull } from 'node:os';
import type { Readable, Writable } from 'node:stream';

/** How a git program ended. */
export interface GitExit {
  /** Null when it was ended by a signal or could not be started. */
  readonly code: number | null;
  /** The end of what it said on its standard error, without credentials. */
  readonly complaint: string;
}

export interface StartOptions {
  /** Written to its standard input. The program is ended when this fails: it must not take a part for the whole. */
  readonly input?: string | Uint8Array | AsyncIterable<Uint8Array>;
  /** Ends the program when aborted. */
  readonly signal?: AbortSignal;
  /** Variables added to the clean environment. */
  readonly environment?: Readonly<Record<string, string>>;
  /**
   * Where it is to be ended, its input is closed instead, and it has so long to clear away and end by itself, in milliseconds; ended
   * at once if left out.
   */
  readonly graceMs?: number;
  /**
   * Of it and each program that it starts and that does not raise it, in KiB of addresses; not kept to by systems that count none
   * (macOS).
   */
  readonly maxMemoryKib?: number;
  /** Of each file that it or a program that it starts writes, in bytes; git says "File too large" where it would be larger. */
  readonly maxFileBytes?: number;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

const COMPLAINT_LIMIT_CHARACTERS = 2000;
const KILL_AFTER_MS = 1000;
/** The unit in which a shell counts the sizes of files (sh(1), `ulimit`). */
const BLOCK_BYTES = 512;

/** Settings as arguments of git. */
export function settingArguments(...settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ['-c', setting]);
}

/** Settings that a repository, a user or a machine could otherwise bring in. */
const FIXED_SETTINGS = settingArguments(
  'core.quotePath=false',
  // Larger files pass through git piece by piece; above Git's own limit of 512 MiB they would do so as well.
  'core.bigFileThreshold=1m',
  `core.attributesFile=${devNull}`,
  `core.hooksPath=${devNull}`,
  'gc.auto=0',
  'maintenance.auto=false',
);

/** Variables that steer git, its language, or the way that it takes to a server (curl(1), "ENVIRONMENT"). */
const STEERING = /^(?:GIT_|LC_|LANG|(?:[a-z]+_proxy|[A-Z]+_PROXY)$)/;

/**
 * The environment of every git program: the process's own without anything that steers git. The operator's proxy is left to
 * the forward proxy, which would be passed by otherwise.
 */
function cleanEnvironment(added: StartOptions['environment']): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !STEERING.test(name));
  return {
    ...Object.fromEntries(inherited),
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    // A path is a name, never a pattern.
    GIT_LITERAL_PATHSPECS: '1',
    // refs/replace of a mirrored repository would give other bytes than the committed ones.
    GIT_NO_REPLACE_OBJECTS: '1',
    // Nothing is fetched but by who says so: an empty list allows no protocol at all.
    GIT_ALLOW_PROTOCOL: '',
    LC_ALL: 'C',
    // A zip holds local times.
    TZ: 'UTC',
    ...added,
  };
}

/** The program and its arguments; a shell sets the bounds of what it may use up and is replaced by git (sh(1), `ulimit`). */
function commandOf(args: readonly string[], options: StartOptions): [program: string, args: string[]] {
  const { maxMemoryKib, maxFileBytes } = options;
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

/** Hands a program its input, as it comes; gives the error by which the input failed, null for none. */
async function feed(child: Child, { input, graceMs }: StartOptions): Promise<Error | null> {
  if (input === undefined || typeof input === 'string' || input instanceof Uint8Array) {
    child.stdin.end(input);
    return null;
  }
  const closed = new Promise<void>((resolve) => child.stdin.once('close', resolve));
  try {
    for await (const chunk of input) {
      // A program may end early for a reason; the sender learns of it when everything is sent.
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

/** A git program under way. */
export type GitProcess = ReturnType<typeof startGit>;

/**
 * Starts git.
 * @param gitDirectory the bare repository, or null for a command that needs none
 */
export function startGit(gitDirectory: string | null, args: readonly string[], options: StartOptions) {
  const child = spawnGit(gitDirectory, args, options);
  const abort = (): void => endEarly(child, options.graceMs);
  options.signal?.addEventListener('abort', abort);
  if (options.signal?.aborted === true) abort();
  // A program that ends before it has read everything says why on its standard error.
  child.stdin.on('error', () => undefined);
  const exit = watchExit(child);
  void exit.finally(() => options.signal?.removeEventListener('abort', abort));
  return {
    stdout: child.stdout,
    /** Settles when the program has ended and its output is complete; never rejects. */
    exit,
    /**
     * Settles when the input has been read to its end, including input that the program did not want; never rejects. Gives the
     * error by which the input failed, null when it did not.
     */
    fed: feed(child, options),
    end(): void {
      endGroup(child);
      // It is done only when its output is taken or given up.
      child.stdout.destroy();
    },
  };
}
