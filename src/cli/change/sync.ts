import type { Command } from 'commander';
import type { SettingsFor } from '../../config/schema.ts';
import { EXIT_CODES, type ExitCode } from '../../lib/errors/errors.ts';
import { counted } from '../../lib/text/humanize.ts';
import { say } from '../../lib/text/terminal-text.ts';
import { createProgress, type Progress } from './progress.ts';
import { tellShare } from '../../daemon/status/share-report.ts';
import { type PassReport, runPass } from '../../mirror/pass/pass.ts';
import type { Retries } from '../../mirror/plan/actions.ts';
import { PullMonitor, type Trigger } from '../../mirror/pass/events.ts';
import { openMirror } from '../../app/open-mirror.ts';
import { MirrorStatusReader } from '../../daemon/status/mirror-status.ts';
import { isReady } from '../../daemon/status/status-service.ts';
import { Hooks, HOOKS_CLOSE_MS } from '../../daemon/hooks/hooks.ts';
import { secretsOf } from '../../config/secret.ts';
import { liveLineOptions, type Outcome, tell } from '../frame/output.ts';
import { settingsOf } from '../settings/settings-flags.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import type { EventSink } from '../../app/events.ts';

/** `sync` */
export async function runSync(command: Command): Promise<Outcome> {
  const { adopt, allowFailed }: { adopt?: true; allowFailed?: true } = command.opts();
  const { settings } = settingsOf(command, ['service', 'directory']);
  const { report, hooksDue, exitCode } = await sync(settings, progressOf(settings), {
    adopt: adopt === true,
  });
  if (hooksDue > 0) {
    tell(
      say`! hooks.afterPublish did not succeed for ${counted(hooksDue, 'target')}: the next pass of \`run\` or \`sync\` runs it again`,
      'warn',
    );
  }
  const isAllowed = allowFailed === true && exitCode === EXIT_CODES.incomplete && report.isAllThatCanBe;
  return { data: syncData(report), exitCode: isAllowed ? EXIT_CODES.ok : exitCode };
}

/** The progress display of a command, and what tells it how far the work is. */
export interface CommandProgress extends Progress {
  readonly monitor: PullMonitor;
}

/** The progress display of a command, on standard error. */
export function progressOf(settings: SettingsFor<never>): CommandProgress {
  const monitor = new PullMonitor();
  const secrets = (): readonly string[] => secretsOf(settings);
  const progress = createProgress({ ...liveLineOptions(), monitor, secrets });
  return { ...progress, monitor };
}

/** One pass, then the end. @throws MirrorError when the pass as a whole fails */
export async function sync(
  settings: SettingsFor<'service' | 'directory'>,
  progress: CommandProgress,
  {
    trigger = 'command',
    adopt = false,
    retries = 'all',
  }: { readonly trigger?: Trigger; readonly adopt?: boolean; readonly retries?: Retries } = {},
): Promise<{ report: PassReport; hooksDue: number; exitCode: ExitCode }> {
  const sinks = [progress.sink];
  const emitAll: EventSink = (event) => {
    for (const sink of sinks) sink(event);
  };
  const mirror = await openMirror(settings, emitAll, { adopt, monitor: progress.monitor }).catch(
    (error: unknown) => {
      progress.close();
      throw error;
    },
  );
  const status = new MirrorStatusReader(() => settings, mirror);
  const hooks = new Hooks(() => settings, mirror, emitAll, { readMirror: status.read });
  sinks.push(status.sink, hooks.sink);
  const { signal, stopListening } = abortOnSignal();
  signal.addEventListener('abort', () => void hooks.close(0));
  try {
    const report = await runPass(mirror.context, mirror.policy, trigger, signal, retries).catch(
      async (error: unknown) => {
        if (!signal.aborted) await tellShare(settings, mirror, error);
        throw error;
      },
    );
    await tellShare(settings, mirror, null);
    await mirror.rememberInstallation();
    const hooksDue = await hooks.settled();
    const isDone = hooksDue === 0 && (await isReady({ readMirror: status.read }));
    const isIncomplete = report.exitCode === EXIT_CODES.ok && !isDone;
    return { report, hooksDue, exitCode: isIncomplete ? EXIT_CODES.incomplete : report.exitCode };
  } finally {
    await hooks.close(HOOKS_CLOSE_MS);
    stopListening();
    progress.close();
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
