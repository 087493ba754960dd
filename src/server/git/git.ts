import { devNull } from 'node:os';
import { buffer } from 'node:stream/consumers';

import { Places } from '../../lib/concurrency/concurrency.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { type ProgramStart, type RunningProgram, startProgram } from '../../lib/process/run.ts';
import type { Bytes } from '../http/library.ts';

/** How git is started; without `input`, its standard input is empty. */
interface StartOptions extends Partial<Pick<ProgramStart, 'input' | 'signal' | 'graceMs'>> {
  /** Variables added to the clean environment. */
  readonly environment?: NodeJS.ProcessEnv;
  /** Whether a warning is a failure, too. */
  readonly failsOnWarning?: boolean;
}

interface RunOptions extends StartOptions {
  /** Takes no place of the short commands: another program, or the size of a history, decides how long it runs. */
  readonly isLong?: boolean;
}

/** Short commands take turns, so that many simultaneous requests do not become as many processes. */
const SHORT_COMMANDS_AT_ONCE = 8;

/** How many programs run for clients at once: each client decides how long its program runs and holds some megabytes. */
const FOR_CLIENTS_AT_ONCE = 64;

/** Settings as arguments of git. */
export function settingArguments(...settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ['-c', setting]);
}

/** Fixed values for settings that a repository, a user or a machine could otherwise change. */
const FIXED_SETTINGS = settingArguments(
  'core.quotePath=false',
  // Larger files pass through git piece by piece; above Git's own limit of 512 MiB they would do so as well.
  'core.bigFileThreshold=1m',
  `core.attributesFile=${devNull}`,
  `core.hooksPath=${devNull}`,
  'maintenance.auto=false',
  // Git writes through to the disk before it goes on: an acknowledged change survives a power cut.
  'core.fsync=all',
  'core.fsyncMethod=fsync',
);

/** Variables that affect git, its language, or its route to a server (curl(1), "ENVIRONMENT"). */
const STEERING = /^(?:GIT_|LC_|LANG|(?:[a-z]+_proxy|[A-Z]+_PROXY)$)/;

/** The environment of every git program: the process's own without anything that affects git. */
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
    // refs/replace of a mirrored repository would replace the committed bytes.
    GIT_NO_REPLACE_OBJECTS: '1',
    // An empty list allows no protocol at all; programs that fetch override it.
    GIT_ALLOW_PROTOCOL: '',
    LC_ALL: 'C',
    // A zip holds local times.
    TZ: 'UTC',
    ...added,
  };
}

/** A running git program. */
export type GitProcess = ReturnType<Git['start']>;

function failure(args: readonly string[], code: number | null, complaint: string): MirrorError {
  // Settings (`-c`) come before the subcommand.
  const subcommand = args.find((arg, index) => arg !== '-c' && args[index - 1] !== '-c') ?? '';
  const ending = code === null ? 'was ended early' : `ended with ${code}`;
  const detail = complaint === '' ? '' : `: ${complaint.replaceAll(/\s*\n\s*/g, '; ')}`;
  return new MirrorError('service.failed', `git ${subcommand} ${ending}${detail}`, {
    hint: 'Check that the program git is installed and that the service data directory is readable and writable.',
  });
}

/** Runs git programs, and keeps track of those it started. */
export class Git {
  private readonly running = new Set<RunningProgram>();
  private readonly short = new Places(SHORT_COMMANDS_AT_ONCE);
  /** The places of programs for clients. */
  readonly forClients = new Places(FOR_CLIENTS_AT_ONCE);
  private isStopped = false;

  /**
   * Starts git and gives its output as it comes; the caller must check `exit`: its code, null if a signal ended git or it could not be
   * started, and the end of its standard error, without the user part of any address.
   * @param gitDirectory the bare repository, or null for a command that needs none
   */
  start(gitDirectory: string | null, args: readonly string[], options: StartOptions = {}) {
    if (this.isStopped) throw new MirrorError('service.failed', 'the service is closing');
    const { input = '', environment, failsOnWarning: _, ...others } = options;
    const where = gitDirectory === null ? [] : [`--git-dir=${gitDirectory}`];
    const program = startProgram({
      program: 'git',
      args: [...FIXED_SETTINGS, ...where, ...args],
      environment: cleanEnvironment(environment),
      input,
      ...others,
    });
    this.running.add(program);
    const exit = program.ended.then(({ exitCode, said, startError }) => {
      const words = startError === null ? said : `git cannot be started: ${startError.message}`;
      return { code: exitCode, complaint: words.replaceAll(/\/\/[^/\s@]*@/g, '//') };
    });
    void exit.finally(() => this.running.delete(program));
    return { stdout: program.stdout, fed: program.fed, exit };
  }

  /**
   * Gives the output of git as it comes.
   * @param gitDirectory the bare repository, or null for a command that needs none
   * @throws MirrorError `service.failed` when it does not exit with 0, or warns and `failsOnWarning` is set
   */
  async *output(gitDirectory: string | null, args: readonly string[], options: StartOptions = {}) {
    const { stdout, exit } = this.start(gitDirectory, args, options);
    try {
      yield* stdout as AsyncIterable<Buffer>;
    } catch (error) {
      // A stop ends the program, which the code below reports.
      if (!this.isStopped) throw error;
    } finally {
      // The program, or a child of it, could never end if its pipe were not emptied.
      stdout.destroy();
    }
    const { code, complaint } = await exit;
    if (code !== 0 || (options.failsOnWarning && complaint !== '')) throw failure(args, code, complaint);
  }

  /** As `output`, in a place of those for clients. @throws also the reason of `signal` */
  async *outputForClient(gitDirectory: string, args: readonly string[], signal: AbortSignal): Bytes {
    const leave = await this.forClients.take(signal);
    try {
      yield* this.output(gitDirectory, args, { signal });
    } finally {
      leave();
    }
  }

  /** As `output`, for all of it together. */
  run(
    gitDirectory: string | null,
    args: readonly string[],
    { isLong = false, ...options }: RunOptions = {},
  ): Promise<Buffer> {
    const collect = (): Promise<Buffer> => buffer(this.output(gitDirectory, args, options));
    return isLong ? collect() : this.short.run(collect);
  }

  /** As `run`, for a text, which is given without line ends at its end. Names may end with white space that is not ASCII. */
  async text(gitDirectory: string | null, args: readonly string[], options?: RunOptions): Promise<string> {
    return (await this.run(gitDirectory, args, options)).toString('utf8').replace(/\n+$/, '');
  }

  /** As a long `run`, for output made of NUL-terminated tokens, which are passed on one at a time as UTF-8. */
  async tokens(
    gitDirectory: string,
    args: readonly string[],
    onToken: (token: string) => void,
    input = '',
  ): Promise<void> {
    // Cut bytes, not text: a chunk may end within a character, and a part of a text keeps all of it in memory.
    let rest: Buffer[] = [];
    for await (const chunk of this.output(gitDirectory, args, { input })) {
      let from = 0;
      for (let end = chunk.indexOf(0); end !== -1; end = chunk.indexOf(0, from)) {
        onToken(Buffer.concat([...rest, chunk.subarray(from, end)]).toString());
        rest = [];
        from = end + 1;
      }
      rest.push(chunk.subarray(from));
    }
  }

  /** Ends every running program and waits until none is left; nothing can be started afterwards. */
  async stop(): Promise<void> {
    this.isStopped = true;
    for (const program of this.running) {
      program.stop();
      program.stdout.destroy();
    }
    await Promise.all([...this.running].map(({ ended }) => ended));
  }
}
