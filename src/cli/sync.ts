import type { SettingsFor } from '../config/schema.ts';
import type { ExitCode } from '../model/errors.ts';
import { createProgress } from '../observe/progress.ts';
import { type PassReport, runPass } from '../sync/pass.ts';
import { openMirror } from './compose.ts';
import { secretsOf } from './secrets-of.ts';
import { abortOnSignal } from './signals.ts';
import type { EventSink } from '../model/events.ts';

/** The progress display of a command, on standard error. */
export function progressOf(settings: SettingsFor<never>): EventSink {
  return createProgress({
    write: (text) => process.stderr.write(text),
    isTerminal: process.stderr.isTTY,
    columns: () => process.stderr.columns,
    secrets: () => secretsOf(settings),
  });
}

/** One pass, then the end. @throws MirrorError when the pass as a whole fails */
export async function sync(
  settings: SettingsFor<'service' | 'directory'>,
  emit: EventSink,
): Promise<{ report: PassReport; exitCode: ExitCode }> {
  const mirror = await openMirror(settings, emit);
  const { signal, stopListening } = abortOnSignal();
  try {
    const report = await runPass(mirror.context, mirror.policy, 'command', signal);
    await mirror.rememberInstallation();
    return { report, exitCode: report.exitCode };
  } finally {
    stopListening();
    await mirror.close();
  }
}

/** The outcome of a pass as data, for `--json`. */
export function syncData(report: PassReport): unknown {
  return {
    summary: report.summary,
    targets: report.results.map(({ action, outcome, downloadedBytes, changedFiles }) => ({
      target: action.path,
      action: action.kind,
      reason: action.reason,
      outcome: outcome.kind,
      ...(outcome.kind === 'failed'
        ? { code: outcome.code, message: outcome.message, hint: outcome.hint }
        : {}),
      downloadedBytes,
      changedFiles,
    })),
  };
}
