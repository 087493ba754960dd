import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

import { EXIT_CODES } from '../../src/lib/errors/errors.ts';
import { API_KEY, API_TOKEN } from '../support/fake-service.ts';
import { onLines } from '../support/launcher.ts';
import { cleanEnvironment, MAIN } from '../support/program.ts';
import type { Books } from './books.ts';
import type { Place } from './places.ts';
import type { LogLine, WorkLog } from './work-log.ts';

/** What all instances of a run have in common. */
export interface Surroundings {
  readonly books: Books;
  readonly log: WorkLog;
  readonly violate: (what: string) => void;
}

/** A pass that an instance finished. */
interface Pass {
  readonly startedAtMs: number;
  /** Whether it found everything done. */
  readonly isIdle: boolean;
}

/** The settings of an instance, as variables. @param shard empty for one that has all */
export function settingsIn(books: Books, { directory }: Place, shard: string): Record<string, string> {
  const settings = {
    SERVICE_BASE_URL: books.service.baseUrl,
    SERVICE_API_KEY: API_KEY,
    SERVICE_API_TOKEN: API_TOKEN,
    DIRECTORY: directory,
    ...(shard === '' ? {} : { SHARD: shard }),
    SCHEDULE: '* * * * * *',
    // A state has to come in one answer.
    CONTENT: 'all',
    PUBLISH: 'link',
    DRIFT: 'off',
    FULL_CHECK: '366d',
    GUARD_FILES: 'off',
    READER_GRACE: '20s',
    LOG_LEVEL: 'debug',
    LOG_FORMAT: 'json',
  };
  return Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [`WORKBOOK_MIRROR_${name}`, value]),
  );
}

let lives = 0;

/** One instance from its start to its end. */
export class Instance {
  readonly shard: string;
  readonly place: Place;
  private readonly child: ChildProcess;
  private readonly life = (lives += 1);
  private readonly ended: Promise<unknown>;
  private readonly surroundings: Surroundings;
  private lastPass: Pass | null = null;
  private passStartedAtMs = 0;
  private lastLines: string[] = [];
  private mayEnd = false;
  private excusedUntilMs = 0;
  private hasStarted = false;

  constructor(surroundings: Surroundings, place: Place, shard: string) {
    this.shard = shard;
    this.place = place;
    this.surroundings = surroundings;
    this.child = spawn(process.execPath, [MAIN, 'run'], {
      env: cleanEnvironment(settingsIn(surroundings.books, place, shard)),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    if (this.child.stdout !== null) onLines(this.child.stdout, (line) => this.take(line));
    if (this.child.stderr !== null) onLines(this.child.stderr, (line) => this.remember(line));
    this.ended = this.watch();
  }

  get isRunning(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Whether a pass that began after a time, in milliseconds since the epoch, found everything done. */
  isIdleSince(atMs: number): boolean {
    return this.lastPass !== null && this.lastPass.isIdle && this.lastPass.startedAtMs > atMs;
  }

  /** What it last said. */
  get said(): string {
    return `${this.shard} on ${this.place.name}: ${this.lastLines.join('\n    ')}`;
  }

  /**
   * Nothing that it says for so long is held against it, as what it stands on goes away, nor that it ends at any time then: it may find
   * out late that its lock is gone.
   */
  excuse(forMs: number): void {
    this.mayEnd = true;
    this.excusedUntilMs = Date.now() + forMs;
  }

  async kill(): Promise<void> {
    this.mayEnd = true;
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Ends it as a supervisor does. */
  async stop(): Promise<void> {
    this.mayEnd = true;
    this.child.kill('SIGTERM');
    await this.ended;
    const { exitCode, signalCode } = this.child;
    const isRight = exitCode === 0 || this.foundLocked || (!this.hasStarted && signalCode === 'SIGTERM');
    if (!isRight) this.violate(`ended with ${exitCode ?? signalCode} when it was told to`);
  }

  private async watch(): Promise<void> {
    await once(this.child, 'close');
    const isDefective = this.child.exitCode === EXIT_CODES.defect;
    if (isDefective || (!this.mayEnd && !this.foundLocked))
      this.violate(`ended by itself with ${this.child.exitCode}`);
  }

  /** Whether it waited too long for the lock of one that was killed, which a file server under load frees late. */
  private get foundLocked(): boolean {
    return this.child.exitCode === EXIT_CODES.locked;
  }

  private take(text: string): void {
    this.remember(text);
    let line: LogLine;
    try {
      line = JSON.parse(text) as LogLine;
    } catch {
      return;
    }
    const isExcused = Date.now() < this.excusedUntilMs;
    if (!isExcused) this.surroundings.log.take(this.life, line);
    this.hasStarted = true;
    if (line.event === 'pass.started') this.passStartedAtMs = Date.parse(line.time);
    if (line.event === 'pass.finished')
      this.lastPass = {
        startedAtMs: this.passStartedAtMs,
        isIdle: ['pulled', 'failed', 'held', 'pulling'].every((count) => line[count] === 0),
      };
    const isError = line.level === 'error' || line.level === 'fatal';
    if (isError && (isDefect(line) || (!isExcused && !this.isTaken(line))))
      this.surroundings.violate(`an error: ${text}`);
  }

  /** Whether a line says that the instance lost its lock, for which it was cut off long enough. */
  private isTaken({ code }: LogLine): boolean {
    return code === 'directory.taken' && this.excusedUntilMs > 0;
  }

  private remember(line: string): void {
    this.lastLines = [...this.lastLines.slice(-5), line.slice(0, 800)];
  }

  private violate(what: string): void {
    this.surroundings.violate(`${what}: ${this.said}`);
  }
}

/** Whether a line tells of a defect, for which nothing is an excuse. */
function isDefect({ code }: LogLine): boolean {
  return code === 'internal.defect';
}
