import { type LogEntry, logSources, mergedLog } from '../../app/change-log.ts';
import type { TargetStatus } from '../../app/target-status.ts';
import type { DirectoryLayout } from '../../mirror/store/layout.ts';
import type { DaemonReport } from './status-schema.ts';

/** So many entries of the log are reported, and so many files of each. */
const ENTRIES = 10;
const FILES = 3;

/** So many parts of the log are looked at: one that changed no bytes has no entry. */
const SOURCES = 2 * ENTRIES;

/**
 * Makes a function that gives the last entries of the log. The report of a daemon has them: manifests are read when something changed, and
 * a few of them at most. If the disk cannot be read, it gives the entries known before.
 */
export function createRecentChanges(layout: DirectoryLayout) {
  let seen = '';
  let recent: DaemonReport['changes'] = [];
  return async (statuses: readonly TargetStatus[]): Promise<DaemonReport['changes']> => {
    const facts = statuses.map(({ target, changedAtMs, held }) => [target, changedAtMs, held?.sinceMs]);
    const present = JSON.stringify(facts);
    if (present === seen) return recent;
    try {
      const sources = (await logSources(layout, statuses)).slice(0, SOURCES);
      const found: ReturnType<typeof shown>[] = [];
      for await (const entry of mergedLog(sources)) if (found.push(shown(entry)) === ENTRIES) break;
      recent = found;
      seen = present;
    } catch {
      // The disk is reported by those that need it.
    }
    return recent;
  };
}

function shown({ target, atMs, kind, files, differences }: LogEntry): DaemonReport['changes'][number] {
  const first = differences.slice(0, FILES).map(({ change, path, after }) => {
    const { versionId: version = null, author = null, message = null } = after?.workbook ?? {};
    return { change, path, version, author, message };
  });
  return { target, atMs, kind, files, first };
}
