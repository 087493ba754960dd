import { lastDepartures, type LogEntry, logSources, mergedLog } from '../../app/change-log.ts';
import type { EventSink } from '../../app/events.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { DaemonReport } from './status-schema.ts';

/** So many entries of the log are reported, and so many files of each. */
const ENTRIES = 10;
const FILES = 3;

/** So many parts of the log are looked at: one that changed no bytes has no entry. */
const SOURCES = 2 * ENTRIES;

/** The last entries of the log. The report of a daemon has them: manifests are read when something changed, and a few of them at most. */
export class RecentChanges {
  readonly #layout: DirectoryLayout;
  /** Null if it must be read again. */
  #departed: ReadonlyMap<string, number> | null = null;
  #retirements = 0;
  #seen = '';
  #recent: DaemonReport['changes'] = [];

  constructor(layout: DirectoryLayout) {
    this.#layout = layout;
  }

  /** Takes in events. */
  readonly sink: EventSink = ({ name }) => {
    if (name !== 'target.retired') return;
    this.#departed = null;
    this.#retirements += 1;
  };

  /** Gives those known before where the disk cannot be read. @param statuses of all targets */
  readonly read = async (statuses: readonly TargetStatus[]): Promise<DaemonReport['changes']> => {
    try {
      const retirements = this.#retirements;
      const departed = this.#departed ?? (await lastDepartures(this.#layout));
      // One more may have left during that.
      if (retirements === this.#retirements) this.#departed = departed;
      const sources = logSources(this.#layout, statuses, departed).slice(0, SOURCES);
      const seen = JSON.stringify(sources.map(({ target, lastAtMs }) => [target, lastAtMs]));
      if (seen === this.#seen) return this.#recent;
      const recent: ReturnType<typeof shown>[] = [];
      for await (const entry of mergedLog(sources)) if (recent.push(shown(entry)) === ENTRIES) break;
      this.#recent = recent;
      this.#seen = seen;
    } catch {
      // The disk is reported by those that need it.
    }
    return this.#recent;
  };
}

function shown({ target, atMs, kind, files, differences }: LogEntry): DaemonReport['changes'][number] {
  const first = differences.slice(0, FILES).map(({ change, path, after }) => {
    const { versionId: version = null, author = null, message = null } = after?.workbook ?? {};
    return { change, path, version, author, message };
  });
  return { target, atMs, kind, files, first };
}
