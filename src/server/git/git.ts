import { Places } from '../../lib/concurrency/places.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type GitExit, type GitProcess, startGit, type StartOptions } from './git-process.ts';

/** Limits of a git program that reads from somebody else; it is ended where it wants more. */
export interface GitBounds extends Pick<StartOptions, 'maxMemoryKib' | 'maxFileBytes'> {
  /** From its start, in milliseconds. */
  readonly limitMs?: number;
  readonly maxOutputBytes?: number;
}

interface RunOptions extends StartOptions, GitBounds {
  /** An exit code besides 0 that is an answer and no failure. */
  readonly alsoFine?: number;
  /** It takes no place among those whose answer is short: somebody else decides how long it takes. */
  readonly isLong?: boolean;
}

/** A git program that was ended at one of its bounds. */
class GitBoundError extends MirrorError {
  readonly bound: 'time' | 'output';

  constructor(bound: 'time' | 'output', command: string) {
    super('service.failed', `git ${command} was ended at the limit of its ${bound}`);
    this.bound = bound;
  }
}

/** Commands whose answer is short take turns, so that many requests at once do not become as many processes. */
const SHORT_COMMANDS_AT_ONCE = 8;

/** Finds the subcommand, which settings (`-c`) may precede. */
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

/** Runs git programs, and knows those that it started. */
export class Git {
  private readonly running = new Set<GitProcess>();
  private readonly short = new Places(SHORT_COMMANDS_AT_ONCE);
  private isStopped = false;

  /** Starts git and gives its output as it comes; the caller must look at `exit`. */
  start(gitDirectory: string | null, args: readonly string[], options: StartOptions = {}): GitProcess {
    if (this.isStopped) throw new MirrorError('service.failed', 'the service is closing');
    const process = startGit(gitDirectory, args, options);
    this.running.add(process);
    void process.exit.finally(() => this.running.delete(process));
    return process;
  }

  /**
   * Runs git to its end.
   * @param gitDirectory the bare repository, or null for a command that needs none
   * @returns its standard output
   * @throws MirrorError `service.failed` when it does not end with 0, GitBoundError
   */
  run(gitDirectory: string | null, args: readonly string[], options: RunOptions = {}): Promise<Buffer> {
    const collect = async (): Promise<Buffer> => {
      const chunks: Buffer[] = [];
      await this.consume(gitDirectory, args, options, (chunk) => chunks.push(chunk));
      return Buffer.concat(chunks);
    };
    return options.isLong === true ? collect() : this.short.run(collect);
  }

  /** As `run`, for a text, which is given without line ends at its end. Names may end with white space that is not ASCII. */
  async text(gitDirectory: string | null, args: readonly string[], options?: RunOptions): Promise<string> {
    return (await this.run(gitDirectory, args, options)).toString('utf8').replace(/\n+$/, '');
  }

  /**
   * As `run`, for output of any length made of NUL-terminated tokens, which are handed over one at a time as UTF-8.
   * @param onToken receives each token, cut at `limitBytes`
   */
  tokens(
    gitDirectory: string,
    args: readonly string[],
    onToken: (token: string) => void,
    options: { readonly limitBytes?: number; readonly input?: string } = {},
  ): Promise<void> {
    const { limitBytes, ...rest } = options;
    return this.short.run(() => this.consume(gitDirectory, args, rest, splitTokens(onToken, limitBytes)));
  }

  /** Ends every program under way and waits until none is left; nothing can be started afterwards. */
  async stop(): Promise<void> {
    this.isStopped = true;
    for (const process of this.running) process.end();
    await Promise.all([...this.running].map(({ exit }) => exit));
  }

  private async consume(
    gitDirectory: string | null,
    args: readonly string[],
    options: RunOptions,
    onChunk: (chunk: Buffer) => void,
  ): Promise<void> {
    const { limitMs, maxOutputBytes = Number.POSITIVE_INFINITY, signal } = options;
    const bounds = new AbortController();
    const exceed = (bound: GitBoundError['bound']): void =>
      bounds.abort(new GitBoundError(bound, subcommandOf(args)));
    const signals = [bounds.signal, ...(signal === undefined ? [] : [signal])];
    const { stdout, exit } = this.start(gitDirectory, args, { ...options, signal: AbortSignal.any(signals) });
    const timer = limitMs === undefined ? undefined : setTimeout(exceed, limitMs, 'time');
    let sizeBytes = 0;
    try {
      for await (const chunk of stdout as AsyncIterable<Buffer>) {
        sizeBytes += chunk.length;
        if (sizeBytes > maxOutputBytes) exceed('output');
        else onChunk(chunk);
      }
    } catch (error) {
      // Being stopped shows as the end of the program.
      if (!this.isStopped) throw error;
    } finally {
      clearTimeout(timer);
    }
    const ending = await exit;
    bounds.signal.throwIfAborted();
    if (ending.code !== 0 && ending.code !== options.alsoFine) throw failure(args, ending);
  }
}

const CONTINUATION_MASK = 0xc0;
const CONTINUATION = 0x80;
const LONGEST_CHARACTER_BYTES = 4;

/** Reads UTF-8 up to a limit, and leaves out a character that the limit would tear. */
export function textUpTo(bytes: Buffer, limitBytes: number): string {
  if (bytes.length <= limitBytes) return bytes.toString('utf8');
  let end = limitBytes;
  const least = Math.max(0, limitBytes - LONGEST_CHARACTER_BYTES);
  while (end > least && ((bytes[end] ?? 0) & CONTINUATION_MASK) === CONTINUATION) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/**
 * Cuts chunks of output into NUL-terminated tokens; the cut is on bytes, so that no character is torn.
 * @param onToken receives each token, cut at the limit
 * @param limitBytes no more of a token is held
 */
export function splitTokens(
  onToken: (token: string) => void,
  limitBytes = Infinity,
): (chunk: Buffer) => void {
  // A byte more than the limit shows whether it tears a character.
  const heldBytes = limitBytes + 1;
  let rest: Buffer = Buffer.alloc(0);
  const give = (bytes: Buffer): void => onToken(textUpTo(bytes, limitBytes));
  const joined = (piece: Buffer): Buffer =>
    rest.length === 0 ? piece : Buffer.concat([rest, piece.subarray(0, heldBytes - rest.length)]);
  return (chunk) => {
    let from = 0;
    for (let end = chunk.indexOf(0, from); end !== -1; end = chunk.indexOf(0, from)) {
      give(joined(chunk.subarray(from, end)));
      rest = Buffer.alloc(0);
      from = end + 1;
    }
    rest = joined(chunk.subarray(from, Math.min(chunk.length, from + heldBytes)));
  };
}
